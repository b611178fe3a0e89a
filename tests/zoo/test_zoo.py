"""The zoo: what comes out is what went in, and nothing that was tampered with gets in."""

import hashlib
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import PIPE, Popen

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import macop_aht
from macop_aht import paths, zoo
from macop_aht.cli import main
from macop_aht.episodes.matches import play
from macop_aht.evaluation import curation
from macop_aht.learner.networks import Stack, encode, member, set_member
from macop_aht.learner.selfplay import SelfPlayConfig
from macop_aht.learner.training import TrainingConfig
from macop_aht.onnx import FormatError, Graph, Node, read, write
from macop_aht.onnx.writer import bytes_field, number_field, varint
from macop_aht.runs import checkpoints
from macop_aht.runs.selfplay import SelfPlayRun, self_play
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.zoo import graphs, store
from macop_aht.zoo.cards import INDEX, read_index, write_index
from macop_aht.zoo.convert import convert_zoo
from tests.helpers import graph_of, network, put


@pytest.fixture
def small_zoo(tmp_path, monkeypatch):
    for k, split in enumerate(("train", "train", "test")):
        put(tmp_path, "LBF4", f"macop/{k}", write(graph_of(seed=k)), split=split)
    monkeypatch.setenv("MACOP_ZOO", str(tmp_path))
    return tmp_path


# --- Graphs


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("half", [False, True], ids=["single", "half"])
def test_a_network_comes_out_as_it_went_in(scenario, half):
    """The file passes ONNX's own checker, runs as torch does, and gives its weights back."""
    world, net = network(scenario)
    content = write(graph_of(scenario, half=half))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    graph = read(content)
    graphs.check(graph, world)
    twin = Stack(net.shape, 1)
    set_member(twin, 0, {name: torch.from_numpy(array) for name, array in graphs.network_weights(graph).items()})
    rng, rows = np.random.default_rng(0), 50
    feed = {
        "obs": rng.normal(size=(rows, len(world.observations))).astype(np.float32),
        "last_action": rng.integers(-1, len(world.actions), rows),
        "agent": rng.integers(0, world.n_agents, rows),
        "memory": rng.uniform(-1, 1, (rows, 64)).astype(np.float32),
    }
    q, next_memory = onnxruntime.InferenceSession(content).run(["q", "next_memory"], feed)
    given = {name: torch.from_numpy(array) for name, array in feed.items()}
    inputs = encode(net.shape, given["obs"], given["last_action"], given["agent"])
    ours, memory = twin.step(inputs[None], given["memory"][None])
    np.testing.assert_allclose(q, ours[0].detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(next_memory, memory[0].detach().numpy(), atol=1e-5)
    if not half:
        assert all(torch.equal(value, member(net, 0)[name]) for name, value in member(twin, 0).items())


def hostile():
    """Graphs that are well formed, and not what a teammate may be."""
    graph = graph_of()
    other = "not that of an agent network of ours"
    yield "operators Loop", replace(graph, nodes=[*graph.nodes, Node("Loop", ("obs",), ("x",))])
    yield "another scenario", graph_of("PP1")
    yield other, replace(graph, nodes=[node for node in graph.nodes if "q" not in node.outputs])
    yield other, replace(graph, nodes=graph.nodes[::-1])
    yield (
        "NaN or infinity",
        replace(graph, weights={**graph.weights, "heads.head2.bias": np.full(5, np.nan, np.float32)}),
    )
    yield (
        "another scenario",
        replace(graph, weights={**graph.weights, "heads.head2.bias": np.zeros((3, 5), np.float32)}),
    )
    yield "are missing", replace(graph, weights={"q": np.zeros((1, 5), np.float32)})
    yield other, replace(graph, inputs=[*graph.inputs, replace(graph.inputs[3], name="memory2")])
    doubling = [Node("Concat", ("obs", "obs"), ("x0",), {"axis": 0})]
    doubling += [Node("Concat", (f"x{k}", f"x{k}"), (f"x{k + 1}",), {"axis": 0}) for k in range(40)]
    yield other, replace(graph, nodes=[*graph.nodes, *doubling])  # would need a terabyte
    yield other, replace(graph, weights={**graph.weights, "thirds": np.array([64, 63, 65])})


@pytest.mark.parametrize(
    ("message", "graph"), list(hostile()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_graph_that_is_no_teammate_is_refused(message, graph, small_zoo):
    put(small_zoo, "LBF4", "macop/9", write(graph))
    with pytest.raises(ValueError, match=message):
        zoo.load("LBF4", "macop/9")
    assert zoo.load("LBF4", "macop/0").name == "zoo:macop/0"  # nothing else stops working


def test_external_data_and_foreign_domains_are_refused():
    model = onnx.load_from_string(write(graph_of()))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    with pytest.raises(FormatError, match="weights has the field 13"):
        read(model.SerializeToString())
    model = onnx.load_from_string(write(graph_of()))
    model.graph.node[0].domain = "com.microsoft"
    with pytest.raises(FormatError, match=r"of the domain 'com\.microsoft'"):
        read(model.SerializeToString())
    model = onnx.load_from_string(write(graph_of()))
    model.functions.add().name = "f"
    with pytest.raises(FormatError, match="the file has the field 25"):
        read(model.SerializeToString())


def test_our_reader_and_protobufs_cannot_be_told_different_things():
    """A field of the wrong wire type, which protobuf skips; one that is there twice, of which it takes the last, or merges."""
    node = bytes_field(1, "obs") + bytes_field(2, "x") + bytes_field(4, "Expand")

    def file(node, tail=b""):
        return number_field(1, 9) + bytes_field(7, bytes_field(1, node) + tail) + bytes_field(8, number_field(2, 17))

    assert read(file(node)).nodes[0].op == "Expand"
    disguise = bytes([4 << 3 | 5]) + b"Relu"  # four bytes where a text belongs
    for content, message in (
        (file(node + disguise), "field 4 of an operation has the wire type 5"),
        (file(node + bytes_field(4, "Relu")), "field 4 of an operation is there 2 times"),
        (file(node) + bytes_field(7, b""), "field 7 of the file is there 2 times"),
        (file(node, bytes_field(1, b"") * 1_001), "field 1 of the graph is there 1001 times"),
        (
            file(node, bytes_field(5, bytes_field(1, b"\x7f" * 2_000) + number_field(2, 1) + bytes_field(9, b""))),
            "too many numbers",
        ),
        (
            file(node, bytes_field(5, number_field(1, 1) * 70 + number_field(2, 1) + bytes_field(9, b"\0" * 4))),
            "70 axes",
        ),
        (varint(1 << 35 | 8) + b"\1" + file(node), "which we do not read"),
    ):
        with pytest.raises(FormatError, match=message):
            read(content)


# --- Loading


def test_loading_by_name_by_split_and_in_environments(small_zoo):
    assert zoo.list("LBF4") == ["macop/0", "macop/1", "macop/2"]
    assert [policy.name for policy in zoo.split("LBF4", "train")] == ["zoo:macop/0", "zoo:macop/1"]
    assert zoo.card("LBF4", "macop/2").split == "test"
    env = gym.make("MacopLBF4-v0", teammate="zoo:macop/1")
    _, info = env.reset(seed=0)
    assert info["teammate"] == "zoo:macop/1"
    for _ in range(30):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    envs = gym.make_vec("MacopLBF4-v0", num_envs=8, teammate=["zoo:train+noisy=0.1", "scripted:corner-ne"])
    envs.reset(seed=0)
    envs.step(envs.action_space.sample())
    shorter = gym.make("MacopLBF4-v0", limit=9, teammate="zoo:test")
    assert shorter.reset(seed=1)[1]["teammate"] == "zoo:macop/2"


def test_mistakes_are_answered(small_zoo, tmp_path, monkeypatch):
    for action, kind, message in (
        (lambda: zoo.load("LBF4", "macp/1"), KeyError, "did you mean 'macop/1'"),
        (lambda: zoo.list("LBF5"), KeyError, "unknown scenario"),
        (lambda: zoo.split("LBF4", "tests"), ValueError, "did you mean 'test'"),
        (lambda: zoo.split("LBF4", "validation"), ValueError, "is empty"),
        (lambda: zoo.list("PP1"), FileNotFoundError, "has no groups for PP1"),
        (lambda: gym.make("MacopLBF4-v0", teammate="zoo:macop/7"), KeyError, "no group 'macop/7'"),
    ):
        with pytest.raises(kind, match=message):
            action()
    (small_zoo / "LBF4" / "macop-1.onnx").unlink()
    with pytest.raises(FileNotFoundError, match=r"macop-1\.onnx, the file of macop/1, is missing"):
        zoo.load("LBF4", "macop/1")
    (small_zoo / "LBF4" / "macop-0.onnx").write_bytes(b"\0" * (graphs.LIMIT + 1))
    with pytest.raises(ValueError, match="it has more than"):
        zoo.load("LBF4", "macop/0")
    (small_zoo / "LBF4" / "macop-0.onnx").unlink()
    (small_zoo / "LBF4" / "macop-0.onnx").symlink_to("/dev/zero")
    with pytest.raises(FileNotFoundError, match="is missing"):
        zoo.load("LBF4", "macop/0")
    with pytest.raises(ValueError, match="another scenario"):
        gym.make("MacopLBF4-v0", foods=((0, 0), (5, 5)), teammate="zoo:macop/2")
    monkeypatch.setenv("MACOP_ZOO", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"nowhere.*MACOP_ZOO"):
        zoo.list("LBF4")


def test_a_damaged_index_says_what_is_wrong(small_zoo):
    path = small_zoo / "LBF4" / INDEX
    good = json.loads(path.read_text())
    for change, message in (
        (lambda content: content["groups"][0].update(colour="red"), "unknown key 'colour'"),
        (lambda content: content["groups"][0].update(seed="0"), "seed is '0'; it must be of type int"),
        (lambda content: content["groups"][0].update(split="tset"), "did you mean 'test'"),
        (lambda content: content["groups"][0].update(file="../../etc/passwd"), "in its folder"),
        (lambda content: content["groups"][0].update(scenario="../../tmp"), "it holds cards of"),
        (lambda content: content["groups"][0].update(self_play=float("nan")), "must be a finite number"),
        (lambda content: content["groups"].append(content["groups"][0]), "groups of the same name"),
        (lambda content: content.pop("groups"), "cannot be read"),
        (lambda content: content.update(author="me"), "unknown key 'author'"),
        (lambda content: content.update(format=3), "of format 3; this version reads 2"),
        (lambda content: content.pop("format"), "of format 1; convert it with `macop convert`"),
    ):
        content = json.loads(json.dumps(good))
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=message):
            zoo.list("LBF4")
    path.write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        zoo.list("LBF4")


def test_a_damaged_file_stops_those_alone_who_need_it(small_zoo):
    (small_zoo / "LBF4" / "macop-0.onnx").write_bytes(b"damaged")
    assert [policy.name for policy in zoo.split("LBF4", "test")] == ["zoo:macop/2"]
    env = gym.make("MacopLBF4-v0", teammate="zoo:test")
    assert env.reset(seed=0)[1]["teammate"] == "zoo:macop/2"
    assert {row.teammate for row in macop_aht.evaluate("random", "LBF4", ["zoo:test"], 2)} == {"zoo:macop/2"}
    with pytest.raises(ValueError, match=r"macop-0\.onnx is not the file that index.json names for macop/0"):
        zoo.split("LBF4", "train")


def test_verify_goes_on_after_what_it_cannot_read(small_zoo, capsys):
    for scenario in ("LBF1", "Mine"):
        shutil.copytree(small_zoo / "LBF4", small_zoo / scenario)
    (small_zoo / "LBF1" / INDEX).write_text("[" * 99_999)
    (small_zoo / "LBF4" / "macop-0.onnx").write_bytes(b"damaged")
    assert main(["zoo", "verify"]) == 2
    told, problem = capsys.readouterr()
    lines = [line.partition(": ") for line in told.splitlines()]
    assert [who for who, _, _ in lines] == [
        "LBF1 index.json", "LBF4 macop/0", "LBF4 macop/1", "LBF4 macop/2", "Mine index.json"
    ]  # fmt: skip
    assert "LBF1/index.json cannot be read" in lines[0][2]
    assert "its sha-256 is not the one on its card" in lines[1][2]
    assert "its self-play is" in lines[2][2]
    assert "unknown scenario 'Mine'" in lines[4][2]
    assert "3 groups are not as their cards say; there is no telling of LBF1, Mine in" in problem


def test_nothing_in_an_index_steers_the_terminal(small_zoo, capsys):
    path = small_zoo / "LBF4" / INDEX
    path.write_text(path.read_text().replace('"group": "0/0"', '"group": "0/0\\u001b[31m"', 1))
    assert main(["zoo", "list", "LBF4"]) == 2
    assert "has control characters among its texts" in capsys.readouterr().err
    path.write_text('{"format": 2, "\\u001b[31m": 3}')
    assert main(["zoo", "list", "LBF4"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_damaged_note_of_a_change_is_told_and_goes(small_zoo):
    note = small_zoo / "LBF4" / store.NOTE
    for content in ("[", "3", "[" * 99_999):
        note.write_text(content)
        with pytest.warns(UserWarning, match=r"change\.json is damaged .* may stay in"):
            store.clean(small_zoo / "LBF4")
        assert not note.exists()


def test_places(tmp_path, monkeypatch):
    monkeypatch.delenv("MACOP_ZOO", raising=False)
    assert paths.find("zoo") == paths.PACKAGE.parent / "zoo"  # the checkout's
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "macop_aht")
    with pytest.raises(FileNotFoundError, match=r"macop_aht.data.zoo.*Set MACOP_ZOO"):
        paths.find("zoo")
    (tmp_path / "macop_aht" / "data" / "zoo").mkdir(parents=True)
    assert paths.find("zoo") == tmp_path / "macop_aht" / "data" / "zoo"
    assert macop_aht.__version__


def test_cards_survive_writing(tmp_path):
    card = put(tmp_path, "LBF4", "lipo/3", write(graph_of()), outcomes=["food 0,0"], split="validation")
    assert asdict(read_index(tmp_path / "LBF4")["lipo/3"]) == asdict(card)
    assert isinstance(zoo.graph(card, tmp_path), Graph)


# --- The zoo that comes with the package


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_group_that_is_shipped_loads_and_plays(scenario, monkeypatch):
    monkeypatch.delenv("MACOP_ZOO", raising=False)
    cards, world = zoo.cards(scenario), build(scenario)
    everyone = zoo.policies("all", scenario, world)
    assert [policy.name for policy in everyone] == [f"zoo:{name}" for name in cards]
    played = play(world, everyone[0], everyone, episodes=1)
    assert (played.lengths > 0).all()
    with_themselves = [play(world, policy, [policy], episodes=4).returns.mean() for policy in everyone[:3]]
    assert with_themselves == pytest.approx([card.self_play for card in list(cards.values())[:3]], rel=0.6)
    test_runs = {(card.generator, card.seed) for card in cards.values() if card.split == "test"}
    assert test_runs
    assert test_runs.isdisjoint((card.generator, card.seed) for card in cards.values() if card.split != "test")


# --- Formats and changes


def test_an_index_of_format_1_is_converted(small_zoo, tmp_path):
    """Whole or not at all; a folder of a scenario, or all of a zoo."""
    path, other = small_zoo / "LBF4" / INDEX, small_zoo / "PP1" / INDEX
    put(small_zoo, "PP1", "macop/0", write(graph_of("PP1")))
    kept = {own: read_index(own.parent) for own in (path, other)}
    assert not convert_zoo(small_zoo)

    def age(own):
        content = json.loads(own.read_text())
        del content["format"]
        for entry in content["groups"]:
            entry["origin"], entry["tags"] = entry.pop("group"), entry.pop("outcomes")
        own.write_text(json.dumps(content))

    age(path)
    age(other)
    assert convert_zoo(path.parent)
    with pytest.raises(ValueError, match="convert it with `macop convert`"):
        zoo.list("PP1")
    age(path)
    damaged = other.read_text().replace('"seed": 0', '"seed": "0"')
    before = path.read_text()
    other.write_text(damaged)
    with pytest.raises(ValueError, match=r"PP1.*cannot be converted"):
        convert_zoo(small_zoo)
    assert path.read_text() == before  # which was in good order
    other.write_text(damaged.replace('"seed": "0"', '"seed": 0'))
    assert convert_zoo(small_zoo)
    assert {own: read_index(own.parent) for own in (path, other)} == kept
    with pytest.raises(FileNotFoundError, match="there is no index"):
        convert_zoo(small_zoo / "nothing")


class Killed(BaseException):
    """Nothing catches it, as nothing runs after a kill."""


def test_a_change_that_is_killed_leaves_the_zoo_as_before_or_as_after(small_zoo, tmp_path, monkeypatch):
    """At the k-th thing that is done to a file, for every k, and just after it; the next change cleans up."""
    folder = small_zoo / "LBF4"
    before = read_index(folder)
    content = write(graph_of(seed=9))
    file = store.file_name("macop/0", content)
    new = replace(before["macop/0"], file=file, sha256=hashlib.sha256(content).hexdigest(), seed=9)
    after = {"macop/0": new, "macop/2": before["macop/2"]}
    states, ended = [], False
    for k in range(100):
        for late in (False, True):
            zoo_copy = tmp_path / "copies" / f"{k}-{late}"
            shutil.copytree(folder, zoo_copy / "LBF4")
            done = 0

            def killing(act, late=late, k=k):
                def acted(*words, **options):
                    nonlocal done
                    done += 1
                    if done == k + 1 and not late:
                        raise Killed
                    found = act(*words, **options)
                    if done == k + 1:
                        raise Killed
                    return found

                return acted

            with monkeypatch.context() as patched:
                for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
                    patched.setattr(owner, name, killing(getattr(owner, name)))
                try:
                    store.replace_cards(zoo_copy / "LBF4", after, {file: content})
                    ended = True
                except Killed:
                    pass
            found = read_index(zoo_copy / "LBF4")
            assert found in (before, after)
            states.append(found == after)
            for name in found:  # every file is there, with its hash
                zoo.load("LBF4", name, zoo_copy)
            store.clean(zoo_copy / "LBF4")
            names = {path.name for path in (zoo_copy / "LBF4").iterdir()}
            assert names == {INDEX, *(card.file for card in found.values())}
        if ended:
            break
    assert ended
    assert k > 8
    assert states == sorted(states)
    assert {*states} == {False, True}


def test_a_note_of_a_change_removes_nothing_outside_of_its_folder(small_zoo):
    outside = small_zoo / "PP1.onnx"
    outside.write_text("")
    (small_zoo / "LBF4" / store.NOTE).write_text(json.dumps(["../PP1.onnx"]))
    with pytest.raises(ValueError, match="which is no file of a group"):
        store.clean(small_zoo / "LBF4")
    assert outside.exists()


# --- From runs into the zoo


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    """Two small self-play runs of different seeds."""
    base = tmp_path_factory.mktemp("runs")
    training = SelfPlayConfig(2, 400, TrainingConfig(envs=4, batch=8, ratio=4))
    for seed in (0, 1):
        run = SelfPlayRun("LBF4", seed, training=training)
        self_play(run, base / str(seed), device="cpu", say=lambda line: None)
    return base


def test_groups_come_from_runs_with_honest_cards(finished_runs, tmp_path, capsys):
    target = ["--zoo", str(tmp_path)]
    assert main(["zoo", "add", str(finished_runs / "0"), "--split", "train", *target]) == 0
    assert main(["zoo", "add", str(finished_runs / "1"), "--split", "test", *target, "--most", "1"]) == 0
    cards = zoo.cards("LBF4", tmp_path)
    assert [(card.name, card.split, card.seed) for card in cards.values()][-1] == ("selfplay/2", "test", 1)
    assert len({card.sha256 for card in cards.values()}) == len(cards)
    average = checkpoints.load(finished_runs / "0" / "checkpoints")[0]["learner"]["average"]
    for name, value in graphs.network_weights(zoo.graph(cards["selfplay/1"], tmp_path)).items():
        np.testing.assert_allclose(value, average[name][1], atol=1e-3)
    assert main(["zoo", "verify", *target]) == 0
    capsys.readouterr()
    assert main(["zoo", "list", "LBF4", *target]) == 0
    assert capsys.readouterr().out.count("selfplay/") == 3
    wrong = [
        ({"self_play": 0.9}, "its self-play is"),
        ({"best_response": 0.9}, "its best response, by selfplay/"),
        ({"responder": "selfplay/9"}, "there is no group 'selfplay/9'"),
    ]
    for change, complaint in wrong:
        write_index(tmp_path / "LBF4", {**cards, "selfplay/0": replace(cards["selfplay/0"], **change)}, "")
        assert main(["zoo", "verify", *target]) == 2
        captured = capsys.readouterr()
        assert complaint in captured.out
        assert "1 groups are not as their cards say" in captured.err


def test_a_groups_responder_is_the_one_that_does_best_with_it(monkeypatch):
    monkeypatch.setattr(curation, "EPISODES", 24)
    world, names, groups = build("SMAC2"), ["selfplay/4", "selfplay/5", "macop/1"], {}
    for name in names:
        policy = zoo.load("SMAC2", name)
        own = curation.figures(world, policy)[0]
        card = replace(zoo.card("SMAC2", name), self_play=own, best_response=own, responder=name)
        groups[name] = curation.Candidate(card, b"", policy)
    cards = curation.with_responders(world, groups, names)
    for name, card in cards.items():
        mates = [groups[name].policy]
        tried = {one: play(world, groups[one].policy, mates, 24, curation.TRIAL_SEED).returns.mean() for one in names}
        best = max(tried, key=tried.get)
        result = curation.response(world, groups[best].policy, groups[name].policy)
        expected = (best, result) if result > card.self_play else (name, card.self_play)
        assert (card.responder, card.best_response) == expected
    assert any(card.responder != name for name, card in cards.items())
    later = {name: replace(groups[name], card=card) for name, card in cards.items()}
    assert curation.with_responders(world, later, []) == cards


def test_what_may_not_enter_the_zoo(finished_runs, tmp_path, capsys):
    target = ["--zoo", str(tmp_path)]
    assert main(["zoo", "add", str(finished_runs / "0"), "--split", "train", *target]) == 0
    assert main(["zoo", "add", str(finished_runs / "0"), "--split", "train", *target]) == 2
    assert "are in the zoo already" in capsys.readouterr().err
    sibling = tmp_path / "sibling"
    shutil.copytree(finished_runs / "0", sibling)
    (sibling / "run.toml").write_text((sibling / "run.toml").read_text() + "\n# another run of that seed\n")
    assert main(["zoo", "add", str(sibling), "--split", "test", *target]) == 2
    assert "test groups must come from other seeds" in capsys.readouterr().err
    before = zoo.list("LBF4", tmp_path)
    assert main(["zoo", "add", str(sibling), "--split", "train", *target]) == 0  # the same networks again
    assert zoo.list("LBF4", tmp_path) == before
    (sibling / "result.json").unlink()
    assert main(["zoo", "add", str(sibling), "--split", "train", *target]) == 2
    assert "is not finished" in capsys.readouterr().err
    assert main(["zoo", "add", str(tmp_path / "nothing"), "--split", "train", *target]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_runs_groups_can_be_put_in_the_place_of_those_that_the_zoo_has(finished_runs, tmp_path):
    """Another run of the same seed takes over the names of the first; what others knew of its groups is found out anew."""
    target, folder = ["--split", "train", "--zoo", str(tmp_path / "zoo")], tmp_path / "again"
    (tmp_path / "zoo").mkdir()
    for run in ("0", "1"):
        assert main(["zoo", "add", str(finished_runs / run), *target]) == 0
    first = zoo.cards("LBF4", tmp_path / "zoo")
    shutil.copytree(finished_runs / "0", folder)
    (folder / "run.toml").write_text((folder / "run.toml").read_text() + "\n# with other settings\n")
    assert main(["zoo", "add", str(folder), "--replace", "--least", "99", *target]) == 0
    assert zoo.cards("LBF4", tmp_path / "zoo") == first  # nothing to add: nothing is taken out
    assert main(["zoo", "add", str(folder), "--replace", "--least", "nan", *target]) == 2
    assert main(["zoo", "add", str(folder), "--most", "1", "--replace", *target]) == 0
    cards = zoo.cards("LBF4", tmp_path / "zoo")
    old, new = ([card for card in found.values() if card.seed == 0] for found in (first, cards))
    assert len(old) > len(new) == 1
    assert new[0].name == old[0].name
    assert new[0].config_hash != old[0].config_hash
    assert {path.name for path in (tmp_path / "zoo" / "LBF4").glob("*.onnx")} == {card.file for card in cards.values()}
    assert all(card.responder in cards for card in cards.values())
    assert main(["zoo", "verify", "--zoo", str(tmp_path / "zoo")]) == 0


def test_two_processes_do_not_change_a_zoo_at_once(finished_runs, tmp_path, capsys):
    code = (
        "import sys; from pathlib import Path; from macop_aht.runs.lock import folder_lock\n"
        f"with folder_lock(Path({str(tmp_path / 'LBF4')!r}), 'adding to the zoo'): print(1, flush=True); sys.stdin.read()"
    )
    target = ["--split", "train", "--zoo", str(tmp_path)]
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE) as other:
        other.stdout.readline()
        assert main(["zoo", "add", str(finished_runs / "0"), *target]) == 2
        assert f"process {other.pid}" in capsys.readouterr().err
        other.kill()  # the lock of a dead process is free
    assert main(["zoo", "add", str(finished_runs / "0"), *target]) == 0
