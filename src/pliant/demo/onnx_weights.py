"""The weights of the demonstration's image encoder, from the ONNX file that holds them to the hub's names for them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from pliant.errors import MissingExtraError

if TYPE_CHECKING:
    from onnx import GraphProto

Arrays = dict[str, "numpy.ndarray"]

# What the exporter computed ahead: the position of the class token, and those of the 37 × 37 patches.
_POSITIONS = ("onnx::Concat_1957", "onnx::Reshape_1962")


def backbone(path: Path) -> Arrays:
    """Return the weights of the encoder by the names that DINOv2 checkpoints have on the hub.

    Args:
        path: The ONNX file.

    Raises:
        MissingExtraError: onnx is not installed.
    """
    arrays = _arrays(_graph(path))
    weights = {name.removeprefix("backbone."): array for name, array in arrays.items() if name.startswith("backbone.")}
    weights["embeddings.position_embeddings"] = numpy.concatenate([arrays[name] for name in _POSITIONS], axis=1)
    # Only pretraining reads it, so the file has none; some releases of transformers insist on one.
    weights["embeddings.mask_token"] = numpy.zeros_like(weights["embeddings.cls_token"][0])
    return weights


def decoder(path: Path) -> Arrays:
    """Return the weights of the saliency decoder that reads the encoder's patch outputs, by their own names.

    Args:
        path: The ONNX file.

    Raises:
        MissingExtraError: onnx is not installed.
    """
    arrays = _arrays(_graph(path))
    return {name.removeprefix("decoder."): array for name, array in arrays.items() if name.startswith("decoder.")}


def _graph(path: Path) -> "GraphProto":
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("The demonstration model demo:vision", "demo") from error
    return onnx.load(path).graph


def _arrays(graph: "GraphProto") -> Arrays:
    """Return the file's weights; the matrices, which lost their names, by the bias that is added to their product."""
    from onnx.numpy_helper import to_array

    arrays = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    products = {node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type == "Add":
            biases = [name for name in node.input if name in arrays and name.endswith(".bias")]
            matrices = [products[name] for name in node.input if name in products]
            if biases and matrices:
                # In PyTorch a linear layer's weight is [outputs, inputs].
                arrays[f"{biases[0].removesuffix('bias')}weight"] = arrays[matrices[0]].T
    return arrays
