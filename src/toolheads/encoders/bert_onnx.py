"""BERT as an ONNX graph, built from its weights: no torch, no exporter, no file.

Only standard operators are used. onnxruntime fuses them on its own, and its hand-written
attention and layer-norm operators were measured no faster: the time is in the matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.errors import ConfigError, import_extra

_OPSET = 20
"""The first with Gelu."""
_IR_VERSION = 9
"""What goes with opset 20, so that an onnx newer than onnxruntime writes what that can read."""
_OUTSIDE_BYTES = 4096
"""Weights from this size on stay outside the graph's message, which may not exceed 2 GiB."""


@dataclass(frozen=True)
class BertShape:
    """The sizes of a BERT, from its config.json."""

    layers: int
    heads: int
    width: int
    epsilon: float

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> BertShape:
        """Check that a config describes what this graph computes.

        Raises:
            ConfigError: If it is another architecture or variant.
        """
        wanted = {
            "model_type": "bert",
            "hidden_act": "gelu",
            "position_embedding_type": "absolute",
            "is_decoder": False,
        }
        defaults = {"position_embedding_type": "absolute", "is_decoder": False}
        for name, value in wanted.items():
            got = config.get(name, defaults.get(name))
            if got != value:
                msg = (
                    f"model must have {name} {value!r} for encoder local, got {got!r}; "
                    "use encoder sentence-transformers"
                )
                raise ConfigError(msg)
        try:
            layers = int(config["num_hidden_layers"])
            heads = int(config["num_attention_heads"])
            width = int(config["hidden_size"])
            epsilon = float(config.get("layer_norm_eps", 1e-12))
        except (KeyError, TypeError, ValueError) as e:
            msg = f"config.json of the model must state its sizes, got {e!r}"
            raise ConfigError(msg) from e
        if layers < 1 or heads < 1 or width < 1 or width % heads:
            msg = f"hidden_size must be a multiple of the heads, got {width} and {heads}"
            raise ConfigError(msg)
        return cls(layers, heads, width, epsilon)


@dataclass(frozen=True)
class BertGraph:
    """A serialised graph and the weights that stay outside of it."""

    model: bytes
    """Inputs `ids` (b, s), `mask` (b, s), `positions` (s,), all int32; output `pooled` (b, d)."""
    outside: Mapping[str, Floats]
    """Name → float32 array, for `SessionOptions.add_external_initializers`."""


def bert_graph(weights: Mapping[str, Floats], shape: BertShape, *, pooling: str) -> BertGraph:
    """Build the graph from token ids to pooled vectors, not yet of length 1.

    Args:
        weights: Name → float32 array, as BertModel names them, with or without `bert.`.
        shape: Sizes.
        pooling: `mean` or `cls`. Mean is written as a sum over the tokens of the text, which
            differs by a factor only, and the caller scales to length 1 anyway.

    Raises:
        ConfigError: If a weight is missing or has another shape.
    """
    onnx = import_extra("onnx", user="encoders.local", extra="local")
    onnx_helper = import_extra("onnx.helper", user="encoders.local", extra="local")
    builder = _Builder(onnx, onnx_helper, weights)
    hidden = _embeddings(builder, shape)
    bias = _attention_bias(builder)
    for layer in range(shape.layers):
        hidden = _layer(builder, shape, layer, hidden, bias)
    _pool(builder, hidden, pooling)
    return builder.finish(shape.width)


def _embeddings(b: _Builder, shape: BertShape) -> str:
    d = shape.width
    words = b.weight("embeddings.word_embeddings.weight", (None, d))
    positions = b.weight("embeddings.position_embeddings.weight", (None, d))
    # A single text has token type 0 throughout, so that row joins the positions.
    kinds = b.weight("embeddings.token_type_embeddings.weight", (None, d))
    summed = b.add(
        b.op("Gather", b.constant("words", words), "ids"),
        b.op("Gather", b.constant("positions.table", positions + kinds[0]), "positions"),
    )
    return b.norm(summed, "embeddings.LayerNorm", shape)


def _attention_bias(b: _Builder) -> str:
    """(b, 1, 1, s): 0 for tokens, far below any score for padding."""
    mask = b.op("Cast", "mask", to=1)  # 1 is FLOAT in onnx.TensorProto
    wide = b.op("Unsqueeze", mask, b.constant("axes.1.2", np.array([1, 2], np.int64)))
    padding = b.op("Sub", b.constant("one", np.float32(1)), wide)
    return b.op("Mul", padding, b.constant("far.below", np.float32(-1e9)))


def _layer(b: _Builder, shape: BertShape, layer: int, hidden: str, bias: str) -> str:
    at = f"encoder.layer.{layer}"
    d, size = shape.width, shape.width // shape.heads
    split = b.constant("split", np.array([0, 0, shape.heads, size], np.int64))
    join = b.constant("join", np.array([0, 0, d], np.int64))

    def heads(name: str, perm: list[int], scale: float = 1.0) -> str:
        rows = b.linear(hidden, f"{at}.attention.self.{name}", (d, d), scale)
        return b.op("Transpose", b.op("Reshape", rows, split), perm=perm)

    # The scale of the scores sits in the query weights: one pass over (b, heads, s, s) less.
    query = heads("query", [0, 2, 1, 3], size**-0.5)
    key = heads("key", [0, 2, 3, 1])
    value = heads("value", [0, 2, 1, 3])
    attention = b.op("Softmax", b.add(b.op("MatMul", query, key), bias), axis=-1)
    mixed = b.op("Transpose", b.op("MatMul", attention, value), perm=[0, 2, 1, 3])
    context = b.linear(b.op("Reshape", mixed, join), f"{at}.attention.output.dense", (d, d))
    hidden = b.norm(b.add(context, hidden), f"{at}.attention.output.LayerNorm", shape)
    inner = b.op("Gelu", b.linear(hidden, f"{at}.intermediate.dense", (None, d)))
    outer = b.linear(inner, f"{at}.output.dense", (d, None))
    return b.norm(b.add(outer, hidden), f"{at}.output.LayerNorm", shape)


def _pool(b: _Builder, hidden: str, pooling: str) -> None:
    axis = b.constant("axis.1", np.array([1], np.int64))
    if pooling == "cls":
        b.op("Gather", hidden, b.constant("first", np.array(0, np.int64)), axis=1, out="pooled")
        return
    row = b.op("Unsqueeze", b.op("Cast", "mask", to=1), axis)  # (b, 1, s)
    b.op("Squeeze", b.op("MatMul", row, hidden), axis, out="pooled")


class _Builder:
    """Collects nodes and weights; every method returns the name of what it computes."""

    def __init__(self, onnx: ModuleType, helper: ModuleType, weights: Mapping[str, Floats]) -> None:
        self._onnx, self._helper = onnx, helper
        self._weights, self._prefix = weights, ""
        if "bert.embeddings.word_embeddings.weight" in weights:
            self._prefix = "bert."
        self._nodes: list[Any] = []
        self._constants: dict[str, npt.NDArray[Any]] = {}

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"{kind}.{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def add(self, one: str, two: str) -> str:
        return self.op("Add", one, two)

    def constant(self, name: str, value: npt.NDArray[Any] | np.float32) -> str:
        self._constants[name] = np.ascontiguousarray(value).reshape(np.shape(value))
        return name

    def weight(self, name: str, shape: tuple[int | None, ...]) -> Floats:
        full = self._prefix + name
        if full not in self._weights:
            msg = f"weights of the model must have {full}, got none of that name"
            raise ConfigError(msg)
        array = self._weights[full]
        if len(array.shape) != len(shape) or any(
            want not in (None, got) for want, got in zip(shape, array.shape, strict=True)
        ):
            want_text = ", ".join("any" if want is None else str(want) for want in shape)
            msg = f"{full} must have shape ({want_text}), got {array.shape}"
            raise ConfigError(msg)
        return array

    def linear(
        self, x: str, name: str, shape: tuple[int | None, int | None], scale: float = 1.0
    ) -> str:
        """`x @ W.T + b`, both times `scale`; W has `shape` (out, in)."""
        factor = np.float32(scale)
        weight = self.weight(f"{name}.weight", shape).T * factor
        bias = self.weight(f"{name}.bias", (weight.shape[1],)) * factor
        product = self.op("MatMul", x, self.constant(f"{name}.weight", weight))
        return self.add(product, self.constant(f"{name}.bias", bias))

    def norm(self, x: str, name: str, shape: BertShape) -> str:
        scale, shift = (
            self.weight(f"{name}.{part}", (shape.width,)) for part in ("weight", "bias")
        )
        return self.op(
            "LayerNormalization",
            x,
            self.constant(f"{name}.weight", scale),
            self.constant(f"{name}.bias", shift),
            axis=-1,
            epsilon=shape.epsilon,
        )

    def finish(self, width: int) -> BertGraph:
        onnx, helper = self._onnx, self._helper
        outside: dict[str, Floats] = {}
        inside = []
        for name, array in self._constants.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor = onnx.TensorProto(name=name, data_type=kind, dims=array.shape)
            if array.nbytes >= _OUTSIDE_BYTES:
                tensor.data_location = onnx.TensorProto.EXTERNAL
                tensor.external_data.add(key="location", value="memory")
                outside[name] = array
            else:
                tensor.raw_data = array.tobytes()
            inside.append(tensor)
        sizes = {"ids": ["b", "s"], "mask": ["b", "s"], "positions": ["s"]}
        kinds = onnx.TensorProto
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [helper.make_tensor_value_info(n, kinds.INT32, dims) for n, dims in sizes.items()],
            [helper.make_tensor_value_info("pooled", kinds.FLOAT, ["b", width])],
            initializer=inside,
        )
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        return BertGraph(model.SerializeToString(), outside)
