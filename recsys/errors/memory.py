"""The available memory, also within the limits of a container."""

from collections.abc import Iterator
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
_OF_THIS_PROCESS = Path("/proc/self/cgroup")


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
