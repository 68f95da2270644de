from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import TypeAlias

from recsys.exporting.signature import Input
from recsys.features.onnx_graph import OnnxGraph
from recsys.features.onnx_graph import OnnxValue

if TYPE_CHECKING:
    import numpy as np

OnnxEncoder: TypeAlias = Callable[[OnnxGraph, str], Sequence[OnnxValue]]


class OnnxInputs:
    """The inputs of an ONNX file, and the nodes that encode them.

    Attributes:
        graph: The nodes.
        values: The inputs themselves.
        defaults: By the name of each input, array `(1, ...)` that it has where
            it is left out.

    Args:
        inputs: The inputs by name.
        encoders: For each of them, what adds its encoding to a graph, as
            `FittedFeature.encode_onnx` does. An input that has none is taken
            as it is.
    """

    def __init__(
        self, inputs: Mapping[str, Input], encoders: Mapping[str, OnnxEncoder]
    ) -> None:
        self.graph = OnnxGraph("raw")
        self.values = [
            OnnxValue(name, input.dtype, input.shape)
            for name, input in inputs.items()
        ]
        self.defaults: dict[str, np.ndarray] = {
            name: input.default for name, input in inputs.items()
        }
        self._encoded = {
            value.name: [*encoders[value.name](self.graph, value.name)]
            if value.name in encoders
            else [value]
            for value in self.values
        }

    def of_one_batch(self) -> dict[str, list[OnnxValue]]:
        """Repeats what has one row where others have more, or none.

        Returns:
            By the name of each input, the tensors that it is encoded as, all
            with the same number of rows.
        """
        if len(self._encoded) == 1:
            return self._encoded
        graph = self.graph
        sizes = graph.add(
            "Concat",
            *(
                graph.add("Shape", values[0].name, end=1)
                for values in self._encoded.values()
            ),
            axis=0,
        )
        zero = graph.constant([0])
        rows = graph.add(
            "Where",
            graph.add("Equal", graph.add("ReduceMin", sizes), zero),
            zero,
            graph.add("ReduceMax", sizes),
        )
        return {
            name: [self._repeated(value, rows) for value in values]
            for name, values in self._encoded.items()
        }

    def _repeated(self, value: OnnxValue, rows: str) -> OnnxValue:
        graph = self.graph
        kept = graph.constant([1] * (len(value.shape) - 1))
        shape = graph.add("Concat", rows, kept, axis=0)
        return value._replace(name=graph.add("Expand", value.name, shape))
