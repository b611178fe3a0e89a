"""Sessions: what onnxruntime raises becomes an error of ours that names the file."""

import copy
import pickle

import numpy as np
import onnxruntime
import pytest

from macop_aht.onnx import Builder, FormatError, Graph, Session, Tensor, write


def doubling():
    add = Builder()
    add("Add", "x", "x", output="y")
    return write(Graph(add.nodes, [Tensor("x", np.float32, ("N", 2))], [Tensor("y", np.float32, ("N", 2))], {}))


def test_a_session_runs_and_can_be_copied(monkeypatch):
    asked = []
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: asked.append(True))
    session = Session(doubling(), "twice.onnx")
    assert asked
    for one in (session, copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        (found,) = one.run(["y"], {"x": np.ones((3, 2), np.float32)})
        assert (found == 2).all()


def test_errors_name_the_file():
    with pytest.raises(FormatError, match=r"broken.onnx cannot be run by this onnxruntime"):
        Session(b"broken", "broken.onnx")
    session = Session(doubling(), "twice.onnx")
    for wrong in ({"x": np.ones((3, 3), np.float32)}, {"x": np.ones((3, 2), np.int64)}, {}):
        with pytest.raises(FormatError, match=r"twice.onnx cannot be computed"):
            session.run(["y"], wrong)
