"""Collects the nodes and constants of an ONNX graph while a module of graphs builds a model."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
Attribute = int | float | list[int]
_MICROSOFT_KINDS = (
    "Attention",
    "BiasGelu",
    "Gelu",
    "GroupQueryAttention",
    "MatMulNBits",
    "MultiHeadAttention",
    "QuickGelu",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
_OPSET, _IR_VERSION = 18, 9


class Nodes:
    """The nodes and constants so far, in order."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Add a constant and return its name."""
        self._constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        """Add a node with one output, and return that output's name."""
        output = f"{kind}.{len(self._nodes)}"
        self.add(kind, inputs, [output], **attributes)
        return output

    def add(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> None:
        """Add a node with these outputs."""
        domain = MICROSOFT if kind in _MICROSOFT_KINDS else ""
        node = helper.make_node(kind, inputs, outputs, name=f"{kind}#{len(self._nodes)}", domain=domain)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._nodes.append(node)

    def model(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> ModelProto:
        """Return the whole model."""
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
