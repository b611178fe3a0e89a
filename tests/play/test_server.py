"""The server: pages, games over websockets, and what hostile clients get."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from macop_aht.envs.registration import BUILTIN, register
from macop_aht.evaluation.recordings import read
from macop_aht.play import messages, server
from macop_aht.play.session import BURST, PATIENCE, Budget, Orders
from macop_aht.scenarios import LevelBasedForaging
from macop_aht.scenarios.palette import DARK, LIGHT
from tests.play.live import Page, serving

URL = "http://127.0.0.1:8321"


def client(**options):
    return TestClient(server.Server(server.Options(seed=3, **options)).app(), base_url=URL)


def game(page, scenario="LBF4", origin=URL):
    return page.websocket_connect(f"{URL.replace('http', 'ws')}/{scenario}/game", headers={"origin": origin})


def hear(socket, kind):
    while (message := socket.receive_json())["type"] != kind:
        pass
    return message


def test_every_scenario_has_a_page_and_a_scene():
    page = client()
    gallery = page.get("/")
    for name in BUILTIN:
        assert f'href="/{name}"' in gallery.text
        assert f'data-scenario="{name}"' in page.get(f"/{name}").text
        scene = page.get(f"/{name}/scene.json").json()
        assert {body["role"] for body in scene["bodies"]} >= {"ego", "mate"}


def test_an_unknown_scenario_gets_a_page_that_helps():
    answer = client().get("/LBF5")
    assert answer.status_code == 404
    assert "did you mean &#x27;LBF4&#x27;?" in answer.text
    assert 'href="/LBF4"' in answer.text
    nasty = client().get("/<script>alert(1)")
    assert "<script>alert" not in nasty.text


def test_nothing_but_its_files_is_served():
    page = client()
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/x"):
        assert page.get(path).status_code == 404
    for name in ("game.js", "draw.js", "input.js", "panel.js", "gallery.js", "play.css", "icon.svg"):
        assert page.get(f"/static/{name}").status_code == 200


def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline():
    page = client()
    policy = page.get("/LBF4").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    static = server.Server(server.Options())._static
    for name, text in static.items():
        own = text.replace("http://www.w3.org/2000/svg", "").replace("ws://${location.host}", "")
        assert "http" not in own.replace("https", "http") or name == "game.js", name
        assert "//cdn" not in own
        if name.endswith(".html"):
            assert " style=" not in text
            assert " on" not in [word[:3] for word in text.split("<")]


def test_the_colours_of_the_page_are_those_of_the_pictures():
    text = client().get("/static/palette.css").text
    for theme in (LIGHT, DARK):
        assert all(f"--{name}: {colour};" in text for name, colour in theme.items())
    assert set(LIGHT) == set(DARK)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example:8321", "", "[::2]:8321"])
def test_other_hosts_are_refused(host):
    """A name of somebody else that leads to this machine."""
    page = client()
    assert page.get("/LBF4", headers={"host": host}).status_code == 403
    headers = {"host": host, "origin": f"http://{host}"}
    with pytest.raises(WebSocketDisconnect), page.websocket_connect("ws://127.0.0.1:8321/LBF4/game", headers=headers):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:8321", "LOCALHOST", "[::1]:8321", "127.0.0.1"])
def test_its_own_names_are_answered(host):
    assert client().get("/LBF4", headers={"host": host}).status_code == 200


def test_an_open_server_answers_addresses_but_no_names():
    page = client(host="0.0.0.0")
    assert page.get("/LBF4", headers={"host": "192.168.1.5:8321"}).status_code == 200
    assert page.get("/LBF4", headers={"host": "evil.example:8321"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "https://127.0.0.1:8321", ""]
)
def test_games_are_for_its_own_pages(origin):
    with pytest.raises(WebSocketDisconnect), game(client(), origin=origin):
        pass


def test_an_episode_in_turns():
    with client() as page, game(page) as socket:
        welcome, state = hear(socket, "welcome"), hear(socket, "state")
        assert (welcome["protocol"], welcome["pace"], welcome["seat"]) == (1, 0, 1)
        assert state["waiting"]
        assert state["step"] == 0
        for step in range(1, welcome["limit"] + 1):
            socket.send_json({"type": "act", "action": 3})
            state = hear(socket, "state")
            assert state["step"] == step
            if state["over"]:
                break
        assert state["over"]
        assert state["mean"] == state["score"]
        socket.send_json({"type": "act", "action": 3})  # comes too late, and is no mistake
        socket.send_json({"type": "next"})
        state = hear(socket, "state")
        assert (state["step"], state["episode"], state["episodes"]) == (0, 2, 1)


def test_real_time_waits_for_the_first_key_and_goes_on_by_itself():
    with client() as page, game(page, "CN2") as socket:
        assert hear(socket, "welcome")["pace"] > 0
        assert hear(socket, "state")["waiting"]
        socket.send_json({"type": "pace", "steps": 30})
        socket.send_json({"type": "act", "action": 2})
        states = [hear(socket, "state") for _ in range(4)]
        assert [state["step"] for state in states] == [1, 2, 3, 4]
        assert all(state["last"][1] == 2 for state in states)
        socket.send_json({"type": "release", "action": 2})
        later = [hear(socket, "state") for _ in range(4)]
        assert later[-1]["last"][1] == 0
        socket.send_json({"type": "pause", "on": True})
        socket.send_json({"type": "nonsense"})
        hear(socket, "error")
        socket.send_json({"type": "pause", "on": False})
        assert hear(socket, "state")["step"] > later[-1]["step"]


def test_watching_goes_from_episode_to_episode(monkeypatch):
    monkeypatch.setattr("macop_aht.play.session.REST", 0.05)
    with client() as page, game(page, "CN2") as socket:
        socket.send_json({"type": "start", "person": False, "teammate": "scripted:landmark-0"})
        socket.send_json({"type": "pace", "steps": 30})
        while (state := hear(socket, "state"))["episodes"] < 2:
            pass
        assert state["mean"] is not None


def test_agents_and_selectors_are_changed_in_mid_game():
    with client() as page, game(page) as socket:
        hear(socket, "welcome")
        socket.send_json({"type": "act", "action": 0})
        socket.send_json({"type": "start", "agent": "macop/LBF4", "selector": "halving"})
        welcome = hear(socket, "welcome")
        assert (welcome["choice"]["agent"], welcome["choice"]["selector"]) == ("macop/LBF4", "halving")
        state = hear(socket, "state")
        assert (state["step"], state["mind"]["kind"]) == (0, "returns")


WRONG = [
    ("", "it is no JSON"),
    ("{", "it is no JSON"),
    ("[]", "it must be a table"),
    ("7", "it must be a table"),
    ('{"type": "akt"}', "did you mean 'act'"),
    ('{"type": ["act"]}', "unknown message type"),
    ('{"type": "act"}', "keys action are missing"),
    ('{"type": "act", "action": "3"}', "must be of type int"),
    ('{"type": "act", "action": true}', "must be of type int"),
    ('{"type": "act", "action": 99}', "action 99 is not in 0..4"),
    ('{"type": "act", "action": -1}', "action -1 is not in 0..4"),
    ('{"type": "act", "action": 1e999}', "must be of type int"),
    ('{"type": "act", "action": 1, "extra": 2}', "unknown key 'extra'"),
    ('{"type": "act", "action": 1, "action": 2}', "a key is there twice"),
    ('{"type": "pace", "steps": NaN}', "numbers must be finite"),
    ('{"type": "pace", "steps": 1e6}', "allowed are 0..30"),
    ('{"type": "next"}', "the episode is not over"),
    ('{"type": "start", "agent": "/etc/passwd"}', "unknown agent"),
    ('{"type": "start", "agent": "os:abort"}', "unknown agent"),
    ('{"type": "start", "teammate": "evil.onnx"}', "unknown teammate"),
    ('{"type": "start", "selector": "best"}', "has no selector 'best'"),
    ("[" * 100, "nested more than"),
    ('{"type": "act", "action": ' + " " * 3000 + "1}", "allowed are 2048"),
]


def test_wrong_messages_get_an_answer_and_the_game_goes_on():
    with client() as page, game(page) as socket:
        hear(socket, "state")
        for text, problem in WRONG:
            socket.send_text(text)
            assert problem in hear(socket, "error")["text"], text
        socket.send_bytes(b"\x00\xff")
        hear(socket, "error")
        socket.send_json({"type": "act", "action": 0})
        assert hear(socket, "state")["step"] == 1


def test_there_is_room_for_so_many_games():
    own = server.Server(server.Options(games=1))
    page = TestClient(own.app(), base_url=URL)
    with game(page) as socket:
        hear(socket, "state")
        with game(page) as other:
            assert "close a tab" in hear(other, "error")["text"]
            with pytest.raises(WebSocketDisconnect) as closed:
                other.receive_json()
            assert closed.value.code == 1013
        assert own.open_games == 1
    deadline = time.monotonic() + 10
    while own.open_games and time.monotonic() < deadline:
        time.sleep(0.01)
    assert own.open_games == 0
    with game(page) as socket:  # a tab was closed
        hear(socket, "state")


def test_episodes_are_recorded(tmp_path):
    path = tmp_path / "games.jsonl"
    with client(record=path) as page, game(page) as socket:
        hear(socket, "state")
        state = {"over": False}
        while not state["over"]:
            socket.send_json({"type": "act", "action": 3})
            state = hear(socket, "state")
    (kept,) = read(path)
    assert (kept.teammate, kept.return_, kept.length) == ("person", state["score"], state["step"])


@pytest.mark.usefixtures("passing")
def test_a_scenario_of_ones_own_is_played():
    register("LBF9", LevelBasedForaging(shape=(9, 9), foods=((0, 0), (8, 8)), spawn=((4, 4), (4, 5))), "a <big> one")
    page = client()
    assert "a &lt;big&gt; one" in page.get("/").text
    with game(page, "LBF9") as socket:
        assert next(iter(hear(socket, "welcome")["agents"])).startswith("scripted:")
        socket.send_json({"type": "act", "action": 1})
        assert hear(socket, "state")["scene"]["grid"] == [9, 9]


def test_an_unknown_scenario_has_no_game():
    with client() as page, game(page, "LBF5") as socket:
        assert "did you mean 'LBF4'" in hear(socket, "error")["text"]
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_budget():
    budget = Budget(now=0.0)
    assert all(budget.take(0.0) for _ in range(int(BURST)))
    assert not budget.take(0.0)
    assert budget.take(1.0)
    assert (budget.tell(1.0), budget.tell(1.5), budget.tell(2.1)) == (True, False, True)


def test_orders_are_carried_out_at_least_once():
    orders = Orders()
    orders.give(2)
    orders.release(2)  # before the clock has ticked
    assert (orders.take(), orders.take()) == (2, None)
    orders.give(3)
    assert (orders.take(), orders.take()) == (3, 3)
    orders.release(2)  # another key
    assert orders.take() == 3


def test_a_picture_is_sent_where_there_is_nothing_else(monkeypatch):
    import numpy as np

    from macop_aht.scenarios.scene import Scene

    found = messages.scene_message(Scene(picture=np.zeros((4, 6, 3), dtype=np.uint8)))
    assert found["picture"].startswith("data:image/png;base64,iVBOR")


@pytest.fixture(scope="module")
def url():
    with serving("--seed=3") as address:
        yield address


def test_hostile_clients_harm_nobody(url):
    """Floods, huge messages and foreign pages, while somebody else plays."""
    with Page(url) as friend, ThreadPoolExecutor(4) as pool:
        friend.hear("state")
        attacks = [pool.submit(attack, url) for attack in (flood, huge, foreign, vanish)]
        waits = []
        while not all(attack.done() for attack in attacks):
            begun = time.perf_counter()
            friend.send(type="act", action=0)
            if friend.hear("state")["over"]:
                friend.send(type="next")
                friend.hear("state")
            waits.append(time.perf_counter() - begun)
            time.sleep(0.02)
        for attack in attacks:
            attack.result()
    assert sorted(waits)[len(waits) // 2] < 0.25
    with Page(url) as page:
        assert page.hear("state")["step"] == 0


def flood(url):
    """1,000 messages a second: first they are dropped, then the page is shut out."""
    with Page(url) as page, ThreadPoolExecutor(1) as pool:
        page.hear("state")
        told, begun, sent = pool.submit(complaints, page), time.monotonic(), 0
        with suppress(ConnectionClosed):
            while time.monotonic() - begun < 60:
                page.send(type="act", action=0)
                sent += 1
                time.sleep(max(0.0, begun + sent / 1000 - time.monotonic()))
        assert PATIENCE < sent < 60_000
        assert 1 <= told.result(10) <= time.monotonic() - begun + 1


def complaints(page):
    count = 0
    with suppress(ConnectionClosed):
        while True:
            count += "too many messages" in page.socket.recv()
    return count


def huge(url):
    with Page(url) as page:
        page.hear("state")
        page.socket.send("x" * 10_000)
        assert "allowed are 2048" in page.hear("error")["text"]
        with suppress(ConnectionClosed):
            page.socket.send("x" * 5_000_000)
        with pytest.raises(ConnectionClosed):
            page.hear("nothing")


def foreign(url):
    with pytest.raises(InvalidStatus) as refused, Page(url, origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403


def vanish(url):
    """Pages that are gone without a word."""
    for _ in range(10):
        with suppress(OSError, ConnectionClosed), Page(url) as page:
            page.hear("welcome")
            page.socket.socket.close()


def test_two_games_at_once(url):
    with Page(url) as one, Page(url, "CN2") as other:
        one.hear("state")
        other.hear("state")
        one.send(type="act", action=0)
        assert one.hear("state")["step"] == 1
        other.send(type="act", action=1)
        assert other.hear("state")["step"] == 1
