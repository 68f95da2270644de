"""The part of an ONNX graph that encodes features."""

from typing import TYPE_CHECKING
from typing import ClassVar
from typing import NamedTuple

import numpy as np

if TYPE_CHECKING:
    import onnx

# Opset 20, the first with operators for texts, came with ONNX 1.15 in 2023;
# onnxruntime has it from 1.17 on.
OPSETS = {"": 20, "ai.onnx.ml": 2, "com.microsoft": 1, "recsys": 1}


class OnnxValue(NamedTuple):
    """A tensor of an ONNX graph that a model takes.

    Attributes:
        name: Its name.
        dtype: `"int32"` or `"float32"`.
        shape: Its dimensions, `None` for those that depend on the batch.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]


class OnnxGraph:
    """Nodes of an ONNX graph, added one after the other.

    Attributes:
        nodes: The nodes, in an order in which they can be computed.
        constants: The tensors that are the same for every batch.
        functions: By name, functions of the domain `DOMAIN` that nodes call.

    Args:
        prefix: What all names in the graph begin with.
    """

    DOMAIN: ClassVar[str] = "recsys"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.functions: dict[str, onnx.FunctionProto] = {}

    def constant(self, value: object, dtype: str = "int64") -> str:
        """Adds a constant, and returns its name.

        Args:
            value: Array, number, text or list of them.
            dtype: As NumPy calls it; `"object"` for texts.
        """
        from onnx import numpy_helper

        name = self._name("constant", len(self.constants))
        array = np.asarray(value, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(
        self,
        operator: str,
        *inputs: str,
        domain: str = "",
        **attributes: object,
    ) -> str:
        """Adds a node of one output, and returns the output's name.

        Args:
            operator: What the node computes.
            *inputs: Names of tensors; empty for one that is left out.
            domain: Where the operator is from, ONNX itself unless given.
            **attributes: Those of the operator.
        """
        return self.add_all(
            operator, *inputs, outputs=1, domain=domain, **attributes
        )[0]

    def add_all(
        self,
        operator: str,
        *inputs: str,
        outputs: int,
        domain: str = "",
        **attributes: object,
    ) -> list[str]:
        """Adds a node, and returns the names of its outputs.

        Args:
            operator: What the node computes.
            *inputs: Names of tensors; empty for one that is left out.
            outputs: How many it has.
            domain: Where the operator is from, ONNX itself unless given.
            **attributes: Those of the operator.
        """
        from onnx import helper

        name = self._name(operator, len(self.nodes))
        names = [f"{name}:{index}" for index in range(outputs)]
        self.nodes.append(
            helper.make_node(
                operator, inputs, names, name, domain=domain, **attributes
            )
        )
        return names

    def cast(self, value: str, dtype: str) -> str:
        """Adds a conversion to another type, and returns its output's name.

        Args:
            value: Name of a tensor.
            dtype: As NumPy calls it.
        """
        from onnx import helper

        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", value, to=to)

    def call(self, function: "onnx.FunctionProto", *inputs: str) -> str:
        """Adds a call of a function, and returns its only output's name.

        Args:
            function: One of the domain `DOMAIN`.
            *inputs: Names of tensors.
        """
        self.functions[function.name] = function
        return self.add(function.name, *inputs, domain=self.DOMAIN)

    def as_function(
        self, name: str, input: str, output: str
    ) -> "onnx.FunctionProto":
        """Returns the graph as a function of one input and one output.

        Args:
            name: What it is called in the domain `DOMAIN`.
            input: Name of the input.
            output: Name of the output.
        """
        from onnx import helper

        constants = [
            helper.make_node("Constant", [], [constant.name], value=constant)
            for constant in self.constants
        ]
        return helper.make_function(
            self.DOMAIN,
            name,
            [input],
            [output],
            [*constants, *self.nodes],
            self.opset_imports(),
        )

    @classmethod
    def opset_imports(cls) -> "list[onnx.OperatorSetIdProto]":
        """The versions of all operators that nodes may be of."""
        from onnx import helper

        return [helper.make_opsetid(*opset) for opset in OPSETS.items()]

    def _name(self, kind: str, number: int) -> str:
        # A slash is in no name of an input or of a task's column.
        return f"{self.prefix}/{kind}_{number}"
