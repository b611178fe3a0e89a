"""The manifest and the files of a bundle: strict reading, conversion, damage."""

import hashlib
import re
import shutil
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from macop_aht import paths
from macop_aht.deploy.convert import convert_bundle
from macop_aht.deploy.documents import LARGEST, BundleError
from macop_aht.deploy.files import read_manifest
from macop_aht.deploy.manifest import parse, text_of
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.deploy.selectors import SELECTORS, zero_shot
from macop_aht.export.ego_graph import ego_graph
from macop_aht.learner.networks import Ego, weights
from macop_aht.onnx import write
from macop_aht.policies import resolve
from macop_aht.scenarios import build
from tests.bundles import MISTAKES, in_format_1, make_ego, make_recogniser, rewritten


def test_a_manifest_is_read_as_it_was_written(bundle):
    for folder in (bundle, *sorted(path.parent for path in paths.find("agents").glob("*/*/manifest.json"))):
        content = (folder / "manifest.json").read_bytes()
        manifest = read_manifest(folder)
        assert text_of(manifest).encode() == content
        assert manifest.selectors == ["halving", "meta-test", "thompson", "zero-shot"]
        assert (manifest.heads > manifest.run_heads) == manifest.generalist


@pytest.mark.parametrize("message", MISTAKES)
def test_a_manifest_is_read_strictly(bundle, message):
    rewritten(bundle, MISTAKES[message])
    with pytest.raises(BundleError, match=re.escape(message)):
        read_manifest(bundle)


def test_documents_that_are_no_manifests():
    for content, message in (
        (b"{", "it is no JSON"),
        (b"[]", "it must be a table"),
        (b"\xff", "it is no JSON"),
        (b" " * (LARGEST + 1), "allowed are"),
        (b"[" * 1_000_000, "nested more than"),
        (b'"' + b'\\"' * 1_000_000, "it is no JSON"),  # in linear time
        (b'{"format": 2, "format": 2}', "there twice"),
        (b'{"format": 2, "seed": ' + b"9" * 5_000 + b"}", "it is no JSON"),
    ):
        with pytest.raises(BundleError, match=message):
            parse(content)


def test_a_bundle_of_format_1_is_converted(tmp_path):
    """Whole or not at all, and to what it was."""
    shutil.copytree(paths.find("agents") / "macop" / "CN3", tmp_path / "bundle")
    path = tmp_path / "bundle" / "manifest.json"
    manifest = path.read_bytes()
    assert not convert_bundle(path.parent)
    assert path.read_bytes() == manifest
    rewritten(path.parent, in_format_1)
    with pytest.raises(BundleError, match="of format 1; convert it with `macop convert`"):
        EgoAgent.load(path.parent)
    assert convert_bundle(path.parent)
    assert path.read_bytes() == manifest
    rewritten(path.parent, lambda told: (in_format_1(told), told.update(heads="6")))
    damaged = path.read_bytes()
    with pytest.raises(BundleError, match="cannot be converted: heads is '6'"):
        convert_bundle(path.parent)
    assert path.read_bytes() == damaged
    with pytest.raises(FileNotFoundError, match="there is no bundle"):
        convert_bundle(tmp_path)


def test_a_bundle_of_before_there_were_generalist_heads(told, tmp_path):
    shutil.copytree(told[3], tmp_path / "bundle")
    rewritten(tmp_path / "bundle", lambda told: (in_format_1(told), told.pop("run_heads")))
    assert convert_bundle(tmp_path / "bundle")
    assert EgoAgent.load(tmp_path / "bundle", "meta-test").budget == 8


def put(folder, name, content):
    """Another file in a bundle, with its right sha-256."""
    (folder / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    rewritten(folder, lambda told: told["sha256"].update({name: digest}))


def test_graphs_that_are_not_what_the_manifest_says_are_refused(bundle, monkeypatch):
    """Before onnxruntime gets them."""
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("onnxruntime got a graph"))
    world, rng = build("LBF4"), np.random.default_rng(0)
    kept = {path: path.read_bytes() for path in bundle.rglob("*.*") if path.is_file()}

    def attempt(name, graph, selector, message):
        put(bundle, name, write(graph))
        with pytest.raises(BundleError, match=message):
            EgoAgent.load(bundle, selector)
        for path, content in kept.items():
            path.write_bytes(content)

    _, ego = make_ego("LBF4", heads=4)
    sizes = len(world.actions), world.n_agents
    attempt("agent.onnx", ego_graph(weights(ego), *sizes), None, "'memory' .*the manifest says")
    wider = Ego(replace(ego.shape, hidden=128), 4)
    attempt(
        "agent.onnx", ego_graph(weights(wider), *sizes), None, "no generalist head; the manifest says 4 heads, 3 of"
    )
    attempt("agent.onnx", ego_graph(weights(make_ego("CN3")[1]), 5, 3), None, "'obs' .*the manifest says")
    for heads, name in ((4, "meta-test"), (2, "halving"), (4, "thompson")):
        file = f"selectors/{name}.onnx"
        attempt(file, SELECTORS[name](np.zeros((heads, 0))), name, "'tried' .*the manifest says")
        attempt(file, ego_graph(weights(ego), *sizes), name, "no tensor 'tried'")
    file, zero = "selectors/zero-shot.onnx", "zero-shot"
    of_six = zero_shot(weights(make_recogniser(world, ego, rng.random((4, 6)))), *sizes, own=1)
    attempt(file, of_six, zero, "'belief' .*the manifest says")
    of_two_agents = zero_shot(weights(make_recogniser(world, ego, rng.random((4, 5)))), *sizes, own=2)
    attempt(file, of_two_agents, zero, "'obs' .*the manifest says")


def test_damaged_bundles_are_refused(bundle):
    agent = (bundle / "agent.onnx").read_bytes()
    (bundle / "agent.onnx").write_bytes(agent[:-1])
    with pytest.raises(BundleError, match="sha-256 differs"):
        EgoAgent.load(bundle)
    put(bundle, "agent.onnx", agent[:-1])
    with pytest.raises(BundleError, match=r"agent\.onnx cannot be read"):
        EgoAgent.load(bundle)
    foreign = onnx.load_from_string(agent)
    foreign.opset_import[0].version = 999
    put(bundle, "agent.onnx", foreign.SerializeToString())
    with pytest.raises(BundleError, match="operator set 999; allowed are 11"):
        EgoAgent.load(bundle)
    (bundle / "agent.onnx").unlink()
    with pytest.raises(FileNotFoundError, match="is missing from the bundle"):
        EgoAgent.load(bundle)


FILES = ("agent.onnx", "selectors/zero-shot.onnx", "selectors/meta-test.onnx")


def selector_of(name):
    return None if name == "agent.onnx" else name.removeprefix("selectors/").removesuffix(".onnx")


@pytest.mark.parametrize("name", FILES)
def test_graphs_that_hold_what_is_not_allowed_are_refused(bundle, monkeypatch, name):
    """Loops, other operators, huge tensors and weights that are not finite never get to onnxruntime."""
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("onnxruntime got a graph"))
    content = (bundle / name).read_bytes()

    def attempt(change, message):
        graph = onnx.load_from_string(content)
        change(graph.graph)
        put(bundle, name, graph.SerializeToString())
        with pytest.raises(BundleError, match=f"{name} cannot be read .*{message}"):
            EgoAgent.load(bundle, selector_of(name))

    def loop(graph):
        body = onnx.helper.make_graph([], "body", [], [])
        graph.node.append(onnx.helper.make_node("Loop", [graph.initializer[0].name], ["never"], body=body))

    def other(graph):
        graph.node.append(onnx.helper.make_node("Erf", [graph.initializer[0].name], ["unused"]))

    def large(graph):
        side = onnx.numpy_helper.from_array(np.zeros((1, 3_000), np.float32), "side")
        tall = onnx.numpy_helper.from_array(np.zeros((3_000, 1), np.float32), "tall")
        graph.initializer.extend([side, tall])
        graph.node.append(onnx.helper.make_node("Add", ["side", "tall"], ["unused"]))

    def infinite(graph):
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(np.inf, np.float32), "unused"))

    attempt(loop, "holds a graph; loops and branches")
    attempt(other, "the operators 'Erf' are not allowed")
    attempt(large, "more memory or time than is allowed")
    attempt(infinite, "weights 'unused' contain NaN or infinity")


def shifted(content, output, by):
    """A graph whose integer output is larger by so much; what else uses it is as before."""
    graph = onnx.load_from_string(content)
    for node in graph.graph.node:
        for names in (node.input, node.output):
            for k, name in enumerate(names):
                names[k] = "chosen" if name == output else name
    graph.graph.node.append(onnx.helper.make_node("Add", ["chosen", "by"], [output]))
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.array(by, np.int64), "by"))
    return graph.SerializeToString()


@pytest.mark.parametrize("by", [-5, 50])
def test_heads_that_are_not_there_are_refused(bundle, by):
    name = "selectors/meta-test.onnx"
    put(bundle, name, shifted((bundle / name).read_bytes(), "next_head", by))
    with pytest.raises(BundleError, match=r"meta-test.onnx chose the heads -?\d+; there are 0..2"):
        EgoAgent.load(bundle, "meta-test")
    name = "selectors/zero-shot.onnx"
    put(bundle, name, shifted((bundle / name).read_bytes(), "head", by))
    agent = EgoAgent.load(bundle, "zero-shot")
    before = agent.state
    with pytest.raises(BundleError, match=r"zero-shot.onnx chose the heads \[-?\d+\]; there are 0..3"):
        agent.act(np.zeros(12), np.ones(5))
    assert agent.state == before
    world = build("LBF4")
    (policy,) = resolve(f"agent:{bundle}", world, "LBF4")
    zeros = np.zeros(2, np.int64)
    with pytest.raises(BundleError, match="chose the heads"):
        policy.act(
            np.zeros((2, 12), np.float32), np.ones((2, 5), np.int8), zeros, zeros,
            np.zeros((2, policy.memory_size), np.float32), np.zeros((2, 0)),
        )  # fmt: skip


@pytest.mark.parametrize("name", FILES[:2])
def test_weights_that_overflow_are_noticed(bundle, name):
    """They are finite; what they compute is not."""
    graph = onnx.load_from_string((bundle / name).read_bytes())
    for tensor in graph.graph.initializer:
        if tensor.name == "backbone.encoder2.weight":
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.full_like(array, 3e38), tensor.name))
    put(bundle, name, graph.SerializeToString())
    agent = EgoAgent.load(bundle, selector_of(name))
    before = agent.state
    with pytest.raises(BundleError, match=f"{name}.* gave NaN or infinity, for obs up to 1 in size"):
        agent.act(np.ones(12), np.ones(5))
    assert agent.state == before


STATES = {
    "head in this state is [-1]; it must be in 0..3": {"head": [-1]},
    "last_action in this state is [[5]]; it must be in -1..4": {"last_action": [[5]]},
    "memory in this state contains NaN or infinity": {"memory": [[[float("nan")] * 128]]},
    "belief in this state contains NaN": {"belief": "huge"},
    "head in this state has the type float64": {"head": [0.5]},
    "last_action in this state has the type <U1": {"last_action": [["a"]]},
    "memory in this state is no array": {"memory": [[1, [2]]]},
    "head in this state has the shape ()": {"head": 10**400},
    "draws in this state is no state of a random generator": {"draws": {"bit_generator": "PCG64", "state": 3}},
    "is of None": {"scenario": None},
}


@pytest.mark.parametrize("message", STATES)
def test_states_are_checked(bundle, message):
    agent = EgoAgent.load(bundle)
    agent.act(np.ones(12), np.ones(5))
    before = agent.state
    change = STATES[message]
    change = {"belief": [[1e300] * len(before["belief"][0])]} if change == {"belief": "huge"} else change
    with pytest.raises(ValueError, match=re.escape(message)):
        agent.restore({**before, **change})
    assert agent.state == before
    with pytest.raises(ValueError, match="this state is of"):
        agent.restore([])
