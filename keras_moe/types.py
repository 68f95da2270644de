"""Types for the signatures of this package.

Keras 3 ships no type information, and the tensors of its backends share no base
class: these names say what is meant, and what can be done with it.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol
from typing import TypeAlias

import keras
import numpy as np
from numpy.typing import ArrayLike


class Tensor(Protocol):
    """A tensor of any backend, a variable, a symbolic tensor or an array.

    `Any` is what has no common type: a size is `None` in a symbolic shape
    alone, each backend has dtypes of its own, and NumPy's arrays take no
    operands but those that NumPy knows.
    """

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> "Tensor": ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator["Tensor"]: ...

    def __neg__(self) -> "Tensor": ...

    def __add__(self, other: Any, /) -> "Tensor": ...

    def __radd__(self, other: Any, /) -> "Tensor": ...

    def __sub__(self, other: Any, /) -> "Tensor": ...

    def __rsub__(self, other: Any, /) -> "Tensor": ...

    def __mul__(self, other: Any, /) -> "Tensor": ...

    def __rmul__(self, other: Any, /) -> "Tensor": ...

    def __truediv__(self, other: Any, /) -> "Tensor": ...

    def __rtruediv__(self, other: Any, /) -> "Tensor": ...

    def __floordiv__(self, other: Any, /) -> "Tensor": ...

    def __rfloordiv__(self, other: Any, /) -> "Tensor": ...

    def __mod__(self, other: Any, /) -> "Tensor": ...

    def __rmod__(self, other: Any, /) -> "Tensor": ...

    def __and__(self, other: Any, /) -> "Tensor": ...

    def __or__(self, other: Any, /) -> "Tensor": ...

    def __eq__(self, other: object, /) -> Any: ...

    def __ne__(self, other: object, /) -> Any: ...

    def __lt__(self, other: Any, /) -> "Tensor": ...

    def __le__(self, other: Any, /) -> "Tensor": ...

    def __gt__(self, other: Any, /) -> "Tensor": ...

    def __ge__(self, other: Any, /) -> "Tensor": ...


# What `keras.ops.convert_to_tensor` takes: lists of numbers, too.
TensorLike: TypeAlias = Tensor | ArrayLike

# What is measured, outside of any graph.
Numbers: TypeAlias = Sequence[float] | np.ndarray

# An integer that a graph may know only when it runs, such as a number of rows.
IntegerLike: TypeAlias = int | Tensor
FloatLike: TypeAlias = float | Tensor

# `None` where a dimension is not known yet.
Shape: TypeAlias = tuple[int | None, ...]

# A tensor or a shape, or a dict or list of them with one entry per task. Which
# of them it is follows from how a layer was made: not from any type.
Structure: TypeAlias = Any

# A name such as "float32", or a policy.
DTypeLike: TypeAlias = str | keras.DTypePolicy

# What optimizers of Keras take: a number, a schedule or a function.
LearningRateLike: TypeAlias = (
    float
    | keras.optimizers.schedules.LearningRateSchedule
    | Callable[[], float]
)

# An integer draws the same at each call; `None` draws from Keras's global seed.
SeedLike: TypeAlias = int | keras.random.SeedGenerator | None

# What `keras.activations.get` returns.
Activation: TypeAlias = Callable[[Tensor], Tensor]

# What `keras.activations.get`, `initializers.get` and `regularizers.get` take.
ActivationLike: TypeAlias = str | Activation | None
InitializerLike: TypeAlias = (
    str | Mapping[str, object] | keras.initializers.Initializer
)
RegularizerLike: TypeAlias = (
    str | Mapping[str, object] | keras.regularizers.Regularizer | None
)

# What `get_config` returns: whatever JSON can hold. Who reads an entry knows
# its type.
Config: TypeAlias = dict[str, Any]

# The figures of an epoch or a batch by name, as Keras hands them to callbacks.
Logs: TypeAlias = dict[str, float]
