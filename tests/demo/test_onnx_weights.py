import sys
from pathlib import Path

import numpy
import pytest

from pliant.demo.onnx_weights import backbone, decoder
from pliant.errors import MissingExtraError

LINEAR = "encoder.layer.0.mlp.fc1"


def test_weights_get_their_names_back(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'pliant[demo]'")
    node, matrix = onnx.helper.make_node, numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    weights = {
        "onnx::MatMul_1": matrix,
        "onnx::MatMul_2": 10 + matrix,
        f"backbone.{LINEAR}.bias": numpy.zeros(3, dtype=numpy.float32),
        "backbone.norm.weight": numpy.ones(2, dtype=numpy.float32),
        "backbone.embeddings.cls_token": numpy.full((1, 1, 2), 7, dtype=numpy.float32),
        "onnx::Concat_1957": numpy.full((1, 1, 2), 8, dtype=numpy.float32),
        "onnx::Reshape_1962": numpy.full((1, 4, 2), 9, dtype=numpy.float32),
        "decoder.bn1.running_mean": numpy.ones(5, dtype=numpy.float32),
    }
    nodes = [
        node("MatMul", ["x", "onnx::MatMul_1"], ["product"]),
        node("Add", [f"backbone.{LINEAR}.bias", "product"], ["y"]),
        # Neither a bias nor a weight of a linear layer.
        node("MatMul", ["x", "onnx::MatMul_2"], ["other"]),
        node("Add", ["other", "other"], ["z"]),
        node("Add", ["x", "backbone.norm.weight"], ["w"]),
    ]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "graph", [], [], initializers)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "a.onnx")
    found = backbone(tmp_path / "a.onnx")
    embeddings = {f"embeddings.{name}" for name in ("cls_token", "mask_token", "position_embeddings")}
    assert set(found) == {f"{LINEAR}.bias", f"{LINEAR}.weight", "norm.weight", *embeddings}
    assert numpy.array_equal(found[f"{LINEAR}.weight"], matrix.T)
    assert found["embeddings.position_embeddings"][0, :, 0].tolist() == [8, 9, 9, 9, 9]
    assert found["embeddings.mask_token"].tolist() == [[0, 0]]
    assert list(decoder(tmp_path / "a.onnx")) == ["bn1.running_mean"]


@pytest.mark.parametrize("read", [backbone, decoder])
def test_without_onnx_the_extra_is_named(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert callable(read)
    with pytest.raises(MissingExtraError, match=r"demo:vision.*pip install 'pliant\[demo\]'"):
        read(tmp_path / "a.onnx")
