"""Processes that share the rows of a batch without `keras.distribution`.

Keras knows nothing of them, nor does XLA: what needs the rows of all, such as
the loads of experts, asks here.
"""

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager

from keras_moe.types import Tensor

# Not a context variable: replicas of one process are threads.
_sums: list[Callable[[Tensor], Tensor]] = []


@contextmanager
def rows_shared(sum_of_all: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The scope in which other processes have rows of the same batches.

    All of them must train the same layers, in the same order.

    Args:
        sum_of_all: Gets an integer tensor, of the same shape in all processes,
            and returns the sum of them all.

    Example:
        >>> gate = keras_moe.layers.TopKGate(4, k=2, balance="bias")
        >>> with rows_shared(lambda loads: loads * 2):  # Another with the same.
        ...     weights = gate(np.ones((3, 5)), training=True)
    """
    _sums.append(sum_of_all)
    try:
        yield
    finally:
        _sums.pop()


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of the processes' values; the value where there are no others."""
    return _sums[-1](value) if _sums else value
