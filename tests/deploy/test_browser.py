"""The page in examples/browser, in Chromium: recorded episodes of LBF4, the same actions and heads as Python's."""

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "examples" / "browser"
CHROMIUM = shutil.which(os.environ.get("MACOP_CHROMIUM", "chromium"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm"),
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address():
    """The repository, served on this machine, with onnxruntime-web installed where git ignores it."""
    if not (PAGE / "node_modules" / "onnxruntime-web").is_dir():
        subprocess.run(["npm", "install", "--ignore-scripts", "--silent"], cwd=PAGE, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=ROOT))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize(
    ("bundle", "selector"),
    [("macop/LBF4", "zero-shot"), ("macop-plus/LBF4", "zero-shot"), ("macop-plus/LBF4", "meta-test")],
)
def test_the_page_acts_as_python_does(address, page, tmp_path, bundle, selector):
    out = tmp_path / "recording.json"
    record = [sys.executable, PAGE / "record.py", "--bundle", bundle, "--selector", selector, "--out", out]
    subprocess.run(list(map(str, record)), check=True, capture_output=True, timeout=300)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/recording.json", lambda route: route.fulfill(body=out.read_text(), content_type="application/json"))
    page.goto(f"{address}/examples/browser/index.html?bundle=../../agents/{bundle}&selector={selector}")
    played = page.evaluate("window.played")
    assert played == [episode["played"] for episode in json.loads(out.read_text())]
    assert len({str(episode["actions"]) for episode in played}) > 8
    assert len({episode["head"] for episode in played}) > (1 if selector == "meta-test" else 0)
    assert page.locator("#episodes tr").count() == 16
    assert asked
    assert all(url.startswith((address, "blob:", "data:")) for url in asked)  # nothing comes from other hosts


def test_a_changed_file_is_refused(address, page):
    page.route("**/agent.onnx", lambda route: route.fulfill(body=b"other"))
    page.goto(f"{address}/examples/browser/index.html")
    page.locator("#status", has_text="its sha-256 differs").wait_for()
