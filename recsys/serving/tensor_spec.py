from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Protocol

if TYPE_CHECKING:
    import numpy as np

# What a JSON value can be turned into, by the names that NumPy has for it;
# TensorFlow's names in its REST API.
DTYPES = {
    "bool": "DT_BOOL",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "string": "DT_STRING",
}

Arrays = dict[str, "np.ndarray"]


@dataclass(frozen=True)
class ListLength:
    """The part of a list that a model uses.

    Attributes:
        most: Most elements that count.
        keeps_last: Whether those are the last ones, rather than the first.
    """

    most: int
    keeps_last: bool


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model.

    Attributes:
        dtype: A key of `DTYPES`.
        shape: Its dimensions, the batch first; `None` where any size will do.
        default: An array with one row that stands for what a request leaves
            out, `None` where the input must be given.
        length: How much of a list the model looks at, `None` where it is all
            of it or the input is no list.
        bounds: Least and largest number, `None` where any will do.
    """

    dtype: str
    shape: tuple[int | None, ...]
    default: "np.ndarray | None" = None
    length: ListLength | None = None
    bounds: tuple[float, float] | None = None

    @property
    def filler(self) -> object:
        """Padding of short lists, `None` if lists must be complete.

        It is the default, where that is a list of one element.
        """
        default = self.default
        if self.shape[1:] != (None,) or default is None:
            return None
        return default[0, 0] if default.shape == (1, 1) else None

    def rows(self, num_rows: int) -> "np.ndarray":
        """Returns the default, or else zeros or empty texts, for some rows."""
        # Not above: the help of the command line names formats alone.
        import numpy as np

        shape = (num_rows, *(size or 1 for size in self.shape[1:]))
        if self.default is not None:
            shape = (num_rows, *self.default.shape[1:])
            return np.broadcast_to(self.default, shape)
        if self.dtype == "string":
            return np.full(shape, b"", object)
        return np.zeros(shape, self.dtype)


@dataclass(frozen=True)
class TaskClasses:
    """Classes of a multiclass task.

    Attributes:
        names: The classes in their order: texts, or 0, 1, 2, ...
        outputs: The output that has a number for each class, or an output for
            each class.
    """

    names: Sequence[str] | Sequence[int]
    outputs: Sequence[str]


@dataclass(frozen=True)
class Signature:
    """Signature of a model: its inputs and outputs by name.

    Attributes:
        inputs: The inputs.
        outputs: The outputs.
        classes: By multiclass task, its classes, where the export has them.
    """

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    classes: Mapping[str, TaskClasses] = field(default_factory=dict)


def with_inputs(
    signatures: Mapping[str, Signature],
    changed: Callable[[str, TensorSpec], TensorSpec],
) -> dict[str, Signature]:
    """Returns signatures with other facts of their inputs.

    Args:
        signatures: The signatures by name.
        changed: Returns those of an input, by its name and what is known.
    """
    return {
        name: replace(
            signature,
            inputs={
                key: changed(key, spec)
                for key, spec in signature.inputs.items()
            },
        )
        for name, signature in signatures.items()
    }


class Runner(Protocol):
    """A model that is loaded, in any format.

    Attributes:
        signatures: What it can be asked, by name.
    """

    signatures: dict[str, Signature]

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        """Returns the outputs by name, for all inputs of a signature."""
