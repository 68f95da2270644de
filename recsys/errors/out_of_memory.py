"""The backends' out-of-memory errors, as one kind of error."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

# Classes of PyTorch and TensorFlow; JAX says it in the text of a RuntimeError,
# and so do PyTorch on processors, C++ and drivers.
_CLASSES = ("OutOfMemoryError", "ResourceExhaustedError")
_TEXTS = re.compile(
    r"RESOURCE_EXHAUSTED|[Oo]ut of memory|OOM when allocating"
    r"|can't allocate memory|[Cc]annot allocate memory|not enough memory"
    r"|[Ff]ailed to allocate|bad_alloc|Unable to allocate"
    r"|Storage size calculation overflowed"
)
_SIZE = re.compile(r"(\d+) bytes|(\d[\d.]*) ?([KMGTPE]i?B)")


@contextmanager
def clear_memory_errors() -> Iterator[None]:
    """Raises a MemoryError for whatever a backend raises without memory.

    Example:
    >>> with clear_memory_errors():
    ...     raise RuntimeError("CUDA out of memory. Tried to allocate 9.00 GiB")
    Traceback (most recent call last):
    ...
    MemoryError: a request for 9.00 GiB, which are not free
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(_in_words(str(error))) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an exception says that there is not enough memory.

    A `MemoryError`, too, that of NumPy or Arrow; not an error of this package,
    which is clear already, or of an argument.
    """
    if isinstance(error, MemoryError):
        return True
    if any(kind.__name__ in _CLASSES for kind in type(error).__mro__):
        return True
    is_of_runtime = isinstance(error, RuntimeError)
    return is_of_runtime and _TEXTS.search(str(error)) is not None


def _in_words(text: str) -> str:
    size = _SIZE.search(text)
    if size is None:
        return "a request for more than is free"
    count, number, unit = size.groups()
    amount = f"{int(count):,} bytes" if count else f"{number} {unit}"
    return f"a request for {amount}, which are not free"
