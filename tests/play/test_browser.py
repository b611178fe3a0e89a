"""The page in a real browser, played by keys, clicks and touches. Run with `make test-browser`.

With `MACOP_SHOTS=FOLDER`, every page leaves a picture there.
"""

import os
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.play.live import serving

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("MACOP_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
SCENARIOS = ("LBF1", "LBF4", "PP1", "PP2", "CN2", "CN3", "SMAC1", "SMAC2")
LOOKS = (Path(__file__).parent / "looks.js").read_text("utf-8").strip()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving("--seed=3", f"--record={tmp_path_factory.mktemp('kept') / 'games.jsonl'}") as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as api:
        yield api.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(ARGUMENTS))


@pytest.fixture
def open_page(browser):
    """Return what opens pages of their own. Nothing may fail on them, and nothing may come from elsewhere."""
    problems = []

    @contextmanager
    def open_page(address, size=DESKTOP, failing=False, **options):
        own = tuple(address.replace("http", kind).rpartition("/")[0] for kind in ("http", "ws"))
        with browser.new_context(viewport=size, **options) as context:
            page = context.new_page()
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("request", lambda asked: asked.url.startswith((*own, "data:")) or problems.append(asked.url))
            page.on(
                "console", lambda said: problems.append(said.text) if said.type == "error" and not failing else None
            )
            page.goto(address)
            yield page
            if folder := os.environ.get("MACOP_SHOTS"):
                name = f"{address.rpartition('/')[2].partition('?')[0] or 'gallery'}-{len(os.listdir(folder)):02}.png"
                page.screenshot(path=Path(folder) / name, full_page=True)

    yield open_page
    assert not problems


def until(condition, seconds=20.0):
    """Wait for a condition; the page's own policy forbids waiting inside it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.02)
    return found


def looks(page, question):
    return page.evaluate(f"{LOOKS}.{question}()")


def ready(page):
    until(lambda: page.text_content("#head"))
    until(lambda: looks(page, "colours") > 8)


def step(page):
    return int(page.text_content("#step").split("step ")[1].split(" ")[0])


def beliefs(page):
    return page.locator("#beliefs b").all_text_contents()


def title(page):
    return page.text_content("#mind-title")


def test_an_episode_by_keys_and_the_next(url, open_page):
    with open_page(f"{url}/LBF4") as page:
        ready(page)
        assert page.text_content("#mean-of") == "mean over episodes"
        before, count = beliefs(page), 0
        while "Next episode" not in page.text_content("#go"):
            page.keyboard.press("ArrowLeft" if count % 2 else "KeyW")
            count += 1
            until(lambda now=count: step(page) == now)
        assert page.is_visible("#banner")
        assert beliefs(page) != before
        assert page.text_content("#mean-of") == "mean over 1 episode"
        assert page.text_content("#mean") == page.text_content("#score")
        assert page.text_content("#live").endswith("steps")
        page.keyboard.press("Enter")
        until(lambda: page.text_content("#step").startswith("Episode 2 · step 0"))
        assert not page.is_visible("#banner")
        assert page.locator("#history i").count() == 1


def test_keyboard_alone(url, open_page):
    """Tab reaches every control, each has a name, and lists keep the keys that they need."""
    with open_page(f"{url}/LBF4") as page:
        ready(page)
        reached = set()
        for _ in range(22):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        assert {"canvas", "scenario", "agent", "selector", "pace", "trails", "restart", "mode-watch"} <= reached
        assert looks(page, "unnamed") == []
        page.focus("#selector")
        page.keyboard.press("ArrowDown")
        until(lambda: "heads have returned" in title(page))
        assert step(page) == 0
        page.focus("[data-way=stay]")
        page.keyboard.press("Space")
        until(lambda: step(page) == 1)


def test_attack_by_click(url, open_page):
    with open_page(f"{url}/SMAC1") as page:
        ready(page)
        page.select_option("#pace", "10")
        box = page.locator("#canvas").bounding_box()
        page.mouse.click(
            box["x"] + box["width"] * 5 / 32, box["y"] + box["height"] * (1 - 15.1 / 32)
        )  # an enemy's post
        until(lambda: float(page.text_content("#score")) > 0)
        assert float(page.text_content("#score")) > 0
        until(lambda: "Next episode" in page.text_content("#go"), 60)
        assert page.text_content("#banner-title") in ("Victory!", "Defeat")


def test_watching(url, open_page):
    with open_page(f"{url}/LBF4?watch=1&teammate=scripted%3Acorner-se") as page:
        ready(page)
        page.select_option("#pace", "20")
        page.check("#trails")
        until(lambda: page.locator("#history i").count() >= 2, 60)
        assert page.input_value("#teammate") == "scripted:corner-se"
        assert "mean over" in page.text_content("#mean-of")
        assert not page.is_visible("#pad")


def test_agent_and_selector_are_changed_and_stay_after_a_reload(url, open_page):
    with open_page(f"{url}/LBF4") as page:
        ready(page)
        page.keyboard.press("Space")
        page.select_option("#agent", "macop/LBF4")
        until(lambda: "agent=macop%2FLBF4" in page.url)
        page.select_option("#selector", "meta-test")
        until(lambda: "heads have returned" in title(page))
        page.reload()
        until(lambda: "heads have returned" in title(page))
        assert page.input_value("#agent") == "macop/LBF4"


def test_a_reload_in_mid_game_begins_a_new_one(url, open_page):
    with open_page(f"{url}/LBF4") as page:
        ready(page)
        for _ in range(2):
            page.keyboard.press("Space")
            until(lambda: step(page) == 1)
            page.reload()
            ready(page)
            assert step(page) == 0


def test_two_tabs_are_two_games(url, open_page):
    with open_page(f"{url}/LBF4") as one, open_page(f"{url}/CN2") as other:
        ready(one)
        ready(other)
        for count in (1, 2, 3):
            one.keyboard.press("Space")
            until(lambda now=count: step(one) == now)
        assert step(other) == 0
        other.keyboard.press("ArrowUp")
        until(lambda: step(other) > 2)
        assert step(one) == 3


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_world_is_drawn_and_readable(url, open_page, scenario, theme):
    """From a desktop to a phone, in both themes."""
    with open_page(f"{url}/{scenario}", color_scheme=theme) as page:
        ready(page)
        for size in (DESKTOP, PHONE):
            page.set_viewport_size(size)
            until(lambda wide=size["width"]: page.evaluate("innerWidth") == wide)
            until(lambda: looks(page, "colours") > 8)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert looks(page, "faint") == []
            assert looks(page, "small") == []


def test_touch(url, open_page):
    with open_page(f"{url}/LBF4", PHONE, has_touch=True, is_mobile=True) as page:
        ready(page)
        page.tap("[data-way=north]")
        until(lambda: step(page) == 1)
        box = page.locator("#canvas").bounding_box()
        page.touchscreen.tap(box["x"] + 5, box["y"] + box["height"] / 2)
        until(lambda: step(page) == 2)
        assert "Touch the board" in page.text_content("#hint")


def test_an_unknown_scenario_is_a_page_that_helps(url, open_page):
    with open_page(f"{url}/LBF5", failing=True) as page:
        assert "did you mean 'LBF4'" in page.text_content("[role=alert]")
        page.click("a[href='/LBF4']")
        ready(page)


def test_a_wrong_wish_is_told(url, open_page):
    with open_page(f"{url}/LBF4?teammate=zoo%3Anobody") as page:
        ready(page)
        until(lambda: "unknown teammate" in page.text_content("#toast"))
        page.keyboard.press("Space")
        until(lambda: step(page) == 1)


def test_a_server_that_is_gone_is_told(open_page):
    with ExitStack() as server:
        address = server.enter_context(serving())
        with open_page(f"{address}/LBF4", failing=True) as page:
            ready(page)
            server.close()
            until(lambda: page.text_content("#link") == "connection lost")


def test_the_gallery_leads_to_games(url, open_page):
    with open_page(f"{url}/") as page:
        assert page.locator(".worlds a").count() == len(SCENARIOS)
        until(lambda: looks(page, "drawn") == len(SCENARIOS), 60)
        page.click("a[href='/PP1']")
        ready(page)
