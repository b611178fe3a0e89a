"""What a graph may hold. onnxruntime is the slow twin of the computed shapes, the onnx package that of the reader."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from macop_aht.onnx import FormatError, check, read
from macop_aht.onnx.check import _begin
from macop_aht.onnx.shapes import KNOWN, Call, Value, outputs
from macop_aht.policies import OnnxPolicy, resolve
from macop_aht.scenarios import build
from tests.helpers import save_teammate

WIDE = 6  # of the input x (N,WIDE)


def model(nodes, constants=(), outputs=(("y", None),), opset=17, told=(), inputs=()):
    """The bytes of a model of the input x (N,WIDE)."""
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDE]), *inputs]
    found = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants]
    graph = helper.make_graph(nodes, "graph", given, found, weights, value_info=told)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def content(*arguments, **options):
    return model(*arguments, **options).SerializeToString()


def node(op, *inputs, outputs=("y",), **attributes):
    return helper.make_node(op, [*inputs], [*outputs], **attributes)


I64 = np.int64
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def example(op):
    """A node of the operator, its constants, and nodes before it."""
    cube = node("Unsqueeze", "x", "one", outputs=("cube",))  # (N,1,WIDE)
    of_two = ["Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "PRelu", "Sub", "Sum", "Equal", "Greater", "Less"]
    of_two += ["GreaterOrEqual", "LessOrEqual", "Mod"]
    if op in ("And", "Or", "Xor", "Not"):
        masks = [node("Greater", "x", "row", outputs=("mask",))]
        return node(op, *["mask"] * (1 if op == "Not" else 2)), [("row", np.ones(WIDE, np.float32))], masks
    if op in of_two:
        options = {"fmod": 1} if op == "Mod" else {}
        return (
            node(op, "cube", "row", **options),
            [("row", np.ones((3, WIDE), np.float32)), ("one", np.array([1]))],
            [cube],
        )
    if op == "Where":
        mask = node("Greater", "x", "row", outputs=("mask",))
        return node(op, "mask", "x", "row"), [("row", np.ones((1, WIDE), np.float32))], [mask]
    if op in GATES:
        gates, directions = GATES[op], 2
        weights = [("w", (directions, 4 * gates, WIDE)), ("r", (directions, 4 * gates, 4))]
        constants = [(name, np.zeros(shape, np.float32)) for name, shape in weights] + [("one", np.array([1]))]
        last = ("h", "c") if op == "LSTM" else ("h",)
        return (
            node(op, "cube", "w", "r", outputs=("y", *last), hidden_size=4, direction="bidirectional"),
            constants,
            [cube],
        )
    if op.startswith("Arg"):
        return node(op, "x", axis=-1, keepdims=0), [], []
    if op.startswith("Reduce"):
        options = ([("axes", np.array([1]))], {}) if op == "ReduceSum" else ([], {"axes": [1]})
        return node(op, "x", *[name for name, _ in options[0]], keepdims=0, **options[1]), options[0], []
    special = {
        "Cast": (node(op, "x", to=TensorProto.INT64), []),
        "Concat": (node(op, "x", "x", axis=-1), []),
        "ConstantOfShape": (node(op, "shape"), [("shape", np.array([2, 3]))]),
        "Dropout": (node(op, "x", outputs=("y", "mask")), []),
        "Expand": (node(op, "x", "shape"), [("shape", np.array([3, 1, 1]))]),
        "Flatten": (node(op, "x", axis=0), []),
        "Gather": (node(op, "x", "index", axis=1), [("index", np.array([[0, 1, 2]]))]),
        "Gemm": (
            node(op, "x", "w", "b", transB=1),
            [("w", np.ones((4, WIDE), np.float32)), ("b", np.ones(4, np.float32))],
        ),
        "LayerNormalization": (node(op, "x", "w"), [("w", np.ones(WIDE, np.float32))]),
        "MatMul": (node(op, "x", "w"), [("w", np.ones((5, WIDE, 2), np.float32))]),
        "OneHot": (
            node(op, "index", "depth", "values", axis=0),
            [("index", np.array([0, 1])), ("depth", np.array(7)), ("values", np.array([0, 1], np.float32))],
        ),
        "Range": (node(op, "a", "b", "c"), [("a", np.array(2)), ("b", np.array(9)), ("c", np.array(3))]),
        "Reshape": (node(op, "x", "shape"), [("shape", np.array([0, 2, -1]))]),
        "Shape": (node(op, "x"), []),
        "Slice": (
            node(op, "x", "a", "b", "axes", "c"),
            [("a", np.array([-1])), ("b", np.array([-99])), ("axes", np.array([1])), ("c", np.array([-2]))],
        ),
        "Split": (node(op, "x", "sizes", outputs=("y", "z"), axis=1), [("sizes", np.array([4, 2]))]),
        "Squeeze": (node(op, "cube", "one"), [("one", np.array([1]))]),
        "Tile": (node(op, "x", "times"), [("times", np.array([2, 3]))]),
        "Transpose": (node(op, "x", perm=[1, 0]), []),
        "Unsqueeze": (node(op, "x", "axes"), [("axes", np.array([0, -1]))]),
    }
    if op in special:
        found, constants = special[op]
        return found, constants, [cube] if "cube" in found.input else []
    return node(op, "x"), [], []  # entry by entry


@pytest.mark.parametrize("op", sorted(KNOWN))
def test_shapes_are_those_of_onnxruntime(op):
    last, constants, before = example(op)
    made = model([*before, last], constants, [(name, None) for name in last.output], opset=20 if op == "Gelu" else 17)
    for output in made.graph.output:
        output.CopyFrom(helper.make_empty_tensor_value_info(output.name))  # of whatever type it is
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for output, told in zip(made.graph.output, session.get_outputs(), strict=True):
        kinds = {
            "tensor(float)": TensorProto.FLOAT,
            "tensor(int64)": TensorProto.INT64,
            "tensor(bool)": TensorProto.BOOL,
        }
        output.CopyFrom(helper.make_tensor_value_info(output.name, kinds[told.type], None))
    graph = read(made.SerializeToString())
    for rows in (1, 5):
        names = [tensor.name for tensor in session.get_inputs()]
        found = session.run(None, dict.fromkeys(names, np.ones((rows, WIDE), np.float32)))
        values = _begin(graph, rows)
        for one in graph.nodes:
            given = outputs(Call(one, [values[name] for name in one.inputs]))
            values |= dict(zip(one.outputs, given, strict=False))
        ours = [values[name] for name in last.output]
        assert [value.shape for value in ours] == [array.shape for array in found]
        for value, array in zip(ours, found, strict=True):
            assert value.array is None or (value.array == array).all()
    check(graph)


def folded(nodes, constants):
    """The entries of y that are known without data."""
    graph = read(content(nodes, constants, [("y", None)]))
    values = _begin(graph, 3)
    for one in graph.nodes:
        values |= dict(zip(one.outputs, outputs(Call(one, [values[name] for name in one.inputs])), strict=False))
    return values["y"]


def test_shapes_may_depend_on_the_number_of_rows():
    """As exporters write it: the shape of x, (3,6), becomes (3*2, 6/2)."""
    nodes = [
        node("Shape", "x", outputs=("s",)),
        node("Gather", "s", "zero", outputs=("n",)),
        node("Gather", "s", "one", outputs=("d",)),
        node("Mul", "n", "two", outputs=("n2",)),
        node("Div", "d", "two", outputs=("d2",)),
        node("Unsqueeze", "n2", "axes", outputs=("a",)),
        node("Unsqueeze", "d2", "axes", outputs=("b",)),
        node("Concat", "a", "b", outputs=("shape",), axis=0),
        node("Reshape", "x", "shape"),
    ]
    constants = [("zero", I64(0)), ("one", I64(1)), ("two", I64(2)), ("axes", np.array([0]))]
    assert folded(nodes, constants) == Value((6, 3))


HUGE = np.array([2**40])
FORBIDDEN = {
    "constant": ([node("ConstantOfShape", "s")], [("s", HUGE)], "more memory"),
    "expanded": ([node("Expand", "x", "s")], [("s", np.array([10**6, 1, 1]))], "more memory"),
    "tiled": ([node("Tile", "x", "s")], [("s", np.array([1, 10**6]))], "more memory"),
    "one-hot": (
        [node("Cast", "x", outputs=("i",), to=7), node("OneHot", "i", "d", "v")],
        [("d", I64(10**7)), ("v", np.zeros(2, np.float32))],
        "more memory",
    ),
    "range": ([node("Range", "a", "b", "c")], [("a", I64(0)), ("b", I64(2**40)), ("c", I64(1))], "more memory"),
    "doubled": (
        [node("Concat", f"x{k}" if k else "x", f"x{k}" if k else "x", outputs=(f"x{k + 1}",), axis=1) for k in range(30)]
        + [node("Relu", "x30")],
        [],
        "more memory",
    ),
    "squared rows": (
        [
            node("Transpose", "x", outputs=("t",), perm=[1, 0]),
            node("MatMul", "x", "t", outputs=("n2",)),
            node("Unsqueeze", "n2", "axes", outputs=("n3",)),
            node("Unsqueeze", "n2", "last", outputs=("n4",)),
            node("Add", "n3", "n4"),
        ],
        [("axes", np.array([0])), ("last", np.array([2]))],
        "grow faster than the number of rows",
    ),
    "slow": (
        [node("Expand", "one", "s", outputs=("m0",))]
        + [node("MatMul", f"m{k}", f"m{k}", outputs=(f"m{k + 1}",)) for k in range(8)]
        + [node("ReduceSum", "m8", keepdims=0)],
        [("one", np.ones((1, 1), np.float32)), ("s", np.array([400, 400]))],
        "more memory or time",
    ),
    "data": ([node("Cast", "x", outputs=("s",), to=7), node("ConstantOfShape", "s")], [], "depends on data"),
    "unknown": ([node("NonZero", "x")], [], "'NonZero' are not allowed"),
    "random": ([node("RandomNormalLike", "x")], [], "are not allowed"),
    "nowhere": ([node("Relu", "z")], [], "computed nowhere before"),
    "twice": ([node("Relu", "x"), node("Relu", "x")], [], "computed twice"),
    "NaN": ([node("Add", "x", "w")], [("w", np.full(6, np.nan, np.float32))], "NaN or infinity"),
    "infinity": ([node("Add", "x", "w")], [("w", np.full(6, np.inf, np.float16))], "NaN or infinity"),
    "shadowed": ([node("Relu", "x")], [("x", np.zeros((1, 6), np.float32))], "there twice"),
    "reshape": ([node("Reshape", "x", "s")], [("s", np.array([0, 7]))], "cannot make"),
    "axis": ([node("Concat", "x", "x", axis=9)], [], "outside of 2 axes"),
    "broadcast": ([node("Add", "x", "w")], [("w", np.zeros(5, np.float32))], "cannot combine"),
    "product": ([node("MatMul", "x", "w")], [("w", np.zeros((5, 5), np.float32))], "cannot multiply"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_graphs_that_are_refused(name):
    nodes, constants, message = FORBIDDEN[name]
    graph = read(content(nodes, constants))
    with pytest.raises(FormatError, match=message):
        check(graph)


def test_what_the_file_says_of_shapes_must_be_true():
    nodes = [node("Relu", "x", outputs=("h",)), node("Relu", "h")]
    check(read(content(nodes, told=[helper.make_tensor_value_info("h", TensorProto.FLOAT, ["anything", WIDE])])))
    for shape in ([1, WIDE], [None, 7], [WIDE]):
        with pytest.raises(FormatError, match="has the shape"):
            check(read(content(nodes, told=[helper.make_tensor_value_info("h", TensorProto.FLOAT, shape)])))
    with pytest.raises(FormatError, match="has the shape"):
        check(read(content(nodes, outputs=[("y", ["N", 7])])))
    with pytest.raises(FormatError, match="an output is there twice"):
        check(read(content(nodes, outputs=[("y", None), ("y", None)])))
    for opset in (7, 99):
        with pytest.raises(FormatError, match=f"needs operator set {opset}"):
            check(read(content(nodes, opset=opset)))


def smuggled(part):
    """A model that has what the reader refuses."""
    made = model([node("Relu", "x")])
    inner = made.graph
    if part in ("If", "Loop", "Scan"):
        body = helper.make_graph([node("Relu", "x")], "body", [], [helper.make_empty_tensor_value_info("y")])
        inner.node[0].CopyFrom(
            helper.make_node(part, ["x"], ["y"], **{"then_branch" if part == "If" else "body": body})
        )
    elif part == "function":
        made.functions.add(name="f", domain="mine")
    elif part == "training":
        made.training_info.add()
    elif part == "external":
        tensor = inner.initializer.add(name="w", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="../../secret")
    elif part == "sparse":
        inner.sparse_initializer.add()
    elif part == "quantised":
        inner.quantization_annotation.add()
    elif part == "duplicate":
        for _ in range(2):
            inner.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "w"))
    elif part == "domain":
        inner.node[0].domain = "com.example"
    elif part == "text":
        inner.initializer.append(helper.make_tensor("w", TensorProto.STRING, [1], [b"x"]))
    elif part == "attribute twice":
        for _ in range(2):
            inner.node[0].attribute.append(helper.make_attribute("alpha", 1.0))
    return made.SerializeToString()


PARTS = ["If", "Loop", "Scan", "function", "training", "external", "sparse", "quantised", "duplicate", "domain", "text"]


@pytest.mark.parametrize("part", [*PARTS, "attribute twice"])
def test_the_reader_refuses_what_it_does_not_know(part):
    with pytest.raises(FormatError):
        read(smuggled(part))


def test_fields_that_are_skipped_have_no_effect():
    """Notes of exporters: names, descriptions, metadata. onnxruntime computes the same with and without them."""
    made = model([node("Relu", "x")], outputs=[("y", ["N", WIDE])])
    plain = made.SerializeToString()
    made.doc_string = made.graph.doc_string = made.graph.node[0].doc_string = made.graph.node[0].name = "a description"
    made.graph.input[0].doc_string = "of x"
    for place in (made, made.graph, made.graph.node[0], made.graph.input[0]):
        place.metadata_props.add(key="pkg.exporter", value="anything")
    noted = made.SerializeToString()
    x = np.linspace(-1, 1, 2 * WIDE, dtype=np.float32).reshape(2, WIDE)
    outputs = []
    for data in (plain, noted):
        check(read(data))
        outputs.append(onnxruntime.InferenceSession(data).run(None, {"x": x})[0])
    assert read(plain).nodes == read(noted).nodes
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.int32, np.bool_, np.float64])
def test_weights_as_bytes_and_as_numbers(kind):
    array = np.array([[1, 0], [3, 1]]).astype(kind)
    raw = model([node("Identity", "x")], [("w", array)])
    assert (read(raw.SerializeToString()).weights["w"] == array).all()
    if kind in (np.float16, np.float64):
        return
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    raw.graph.initializer[0].CopyFrom(helper.make_tensor("w", code, array.shape, array.ravel().tolist()))
    found = read(raw.SerializeToString()).weights["w"]
    assert found.dtype == kind
    assert (found == array).all()
    raw.graph.initializer[0].raw_data = array.tobytes()
    with pytest.raises(FormatError, match="in one of"):
        read(raw.SerializeToString())


def test_constants_are_weights():
    values = {
        "value_int": 3,
        "value_ints": [1, 2],
        "value_float": 0.5,
        "value": numpy_helper.from_array(np.ones(2, I64)),
    }
    for name, value in values.items():
        graph = read(content([node("Constant", outputs=("c",), **{name: value}), node("Relu", "x")]))
        wanted = numpy_helper.to_array(value) if name == "value" else np.array(value)
        assert (graph.weights["c"] == wanted).all()
        assert [one.op for one in graph.nodes] == ["Relu"]


# --- Teammates by path


def test_a_teammate_by_path_is_checked(tmp_path):
    """A loop of 2**62 rounds, weights that are NaN, an operator that nobody needs, a file of any size."""
    import onnx

    world = build("LBF4")
    good = onnx.load(save_teammate(tmp_path / "good.onnx", 12, 5))
    path = tmp_path / "bad.onnx"

    def refused(model, message):
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        with pytest.raises(ValueError, match=message) as caught:
            resolve(str(path), world)
        return caught.value

    looped = onnx.ModelProto.FromString(good.SerializeToString())
    body = helper.make_graph([], "body", [], [])
    looped.graph.node.append(helper.make_node("Loop", ["rounds", "always"], [], body=body))
    looped.graph.initializer.append(helper.make_tensor("rounds", TensorProto.INT64, [], [2**62]))
    looped.graph.initializer.append(helper.make_tensor("always", TensorProto.BOOL, [], [True]))
    refused(looped, "bad.onnx is not a usable .onnx file: attribute 'body' holds a graph")
    strange = onnx.ModelProto.FromString(good.SerializeToString())
    strange.graph.node.append(helper.make_node("NonZero", ["obs"], ["unused"]))
    error = refused(strange, "the operators 'NonZero' are not allowed")
    assert "trust=True" in str(error.__cause__.__notes__)
    assert OnnxPolicy(path, world, trust=True).memory_size == 3
    refused(onnx.load(save_teammate(tmp_path / "nan.onnx", 12, 5, nan=True)), "NaN or infinity")
    with open(path, "wb") as file:
        file.truncate(900 * 2**20)
    with pytest.raises(ValueError, match="has more than"):
        resolve(str(path), world)


def test_a_trusted_teammate_must_keep_the_contract(tmp_path):
    """Only a trusted file can give other shapes than it says: here as many rows as there are entries that are not zero."""
    import onnx

    made = onnx.load(save_teammate(tmp_path / "teammate.onnx", 12, 5))
    for one in made.graph.node:
        if one.output[0] == "next_memory":
            one.output[0] = "counted"
    made.graph.node.append(helper.make_node("NonZero", ["obs"], ["places"]))
    made.graph.node.append(helper.make_node("Cast", ["places"], ["real"], to=TensorProto.FLOAT))
    made.graph.node.append(helper.make_node("Transpose", ["real"], ["turned"]))
    made.graph.node.append(helper.make_node("Concat", ["turned", "turned"], ["wide"], axis=1))
    made.graph.node.append(helper.make_node("Gather", ["wide", "three"], ["next_memory"], axis=1))
    made.graph.initializer.append(helper.make_tensor("three", TensorProto.INT64, [3], [0, 1, 2]))
    onnx.save(made, tmp_path / "odd.onnx")
    policy = OnnxPolicy(tmp_path / "odd.onnx", build("LBF4"), trust=True)
    one, zeros = np.ones((2, 12), np.float32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="next_memory of shape"):
        policy.act(one, np.ones((2, 5), np.int8), zeros, zeros, np.zeros((2, 3), np.float32), np.zeros((2, 0)))


@pytest.mark.filterwarnings("ignore")
def test_networks_as_torch_exports_them_are_allowed(tmp_path):
    torch = pytest.importorskip("torch")

    class Teammate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = torch.nn.Linear(12 + 5 + 2, 16), torch.nn.Linear(16, 5)
            self.gru, self.norm = torch.nn.GRU(16, 16), torch.nn.LayerNorm(16)

        def forward(self, obs, last_action, agent, memory):
            acted = torch.nn.functional.one_hot(last_action.clamp(min=0), 5) * (last_action >= 0).unsqueeze(1)
            rows = torch.cat([obs, acted.float(), torch.nn.functional.one_hot(agent, 2).float()], dim=1)
            seen, memory = self.gru(self.norm(self.encoder(rows).relu()).unsqueeze(0), memory.unsqueeze(0))
            return self.head(seen[0]), memory[0]

    names = ["obs", "last_action", "agent", "memory"]
    one, zeros = torch.zeros(2, 12), torch.zeros(2, dtype=torch.long)
    axes = {name: {0: "N"} for name in [*names, "q", "next_memory"]}
    path = tmp_path / "teammate.onnx"
    torch.onnx.export(
        Teammate(), (one, zeros, zeros, torch.zeros(2, 16)), path, input_names=names, dynamo=False,
        output_names=["q", "next_memory"], dynamic_axes=axes,
    )  # fmt: skip
    assert OnnxPolicy(path, build("LBF4")).memory_size == 16
