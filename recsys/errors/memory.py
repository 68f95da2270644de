"""Memory: how much is available, and the backends' errors for too little."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
_OF_THIS_PROCESS = Path("/proc/self/cgroup")
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


def free_memory() -> int:
    """Returns how many bytes this process may take.

    That is what the system has available, or what control groups (cgroups of
    either version, as containers have them) leave of it. File caches count as
    available in both.
    """
    available: int = psutil.virtual_memory().available
    groups = list(_groups(_OF_THIS_PROCESS, _GROUPS))
    return max(0, min([available, *left_by_groups(groups)]))


def left_by_groups(groups: list[Path]) -> list[int]:
    """Returns what control groups with a limit leave, in bytes.

    Args:
        groups: Folders of control groups, which need not exist.
    """
    left = []
    for group in groups:
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, taken = _number(group / limit), _number(group / used)
            if most is not None and taken is not None:
                left.append(most - taken + _cached(group / "memory.stat"))
    return left


def _groups(file: Path, root: Path) -> Iterator[Path]:
    """The groups of a process and those that hold them, of both versions."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:  # Not Linux.
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "memory" if controllers else root
        group = top / place.lstrip("/")
        yield from (group, *group.parents)


def _cached(file: Path) -> int:
    """Bytes of file caches, which the system takes back where it must."""
    try:
        pairs = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return 0
    sizes = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    names = ("total_inactive_file", "inactive_file")
    known = [int(sizes[name]) for name in names if name in sizes]
    return known[0] if known else 0


def _number(file: Path) -> int | None:
    """`None` without such a file, or where it says "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


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
