"""Memory that training frees, kept for the next step."""

import os
import platform

from recsys.private_names import set_allocator

# For each parameter of `mallopt` (`man 3 mallopt`) its number and value: no
# block of memory is mapped on its own and unmapped when it is freed, the end of
# the heap is not given back, and all threads share the one heap that may grow.
_SETTINGS = {
    "mmap_max": (-4, 0),
    "trim_threshold": (-1, -1),
    "arena_max": (-8, 1),
}


def keep_memory() -> None:
    """Tells the C library to keep freed memory for this process.

    A step frees all its temporary memory. By default glibc gives what is
    larger than some 32 MiB back to the operating system, from which the next
    step gets it anew and pays for each page. The process keeps its peak of
    memory until it ends. Nothing happens with other libraries, and where the
    environment sets one of the same parameters (`MALLOC_MMAP_MAX_` and others,
    or `GLIBC_TUNABLES`).
    """
    if platform.libc_ver()[0] != "glibc" or any(map(_is_set, _SETTINGS)):
        return
    for number, value in _SETTINGS.values():
        set_allocator(number, value)


def _is_set(parameter: str) -> bool:
    """Returns whether the user has a value for it."""
    variable = f"MALLOC_{parameter.upper()}"  # Some have `_` behind.
    return (
        variable in os.environ
        or f"{variable}_" in os.environ
        or f"glibc.malloc.{parameter}=" in os.environ.get("GLIBC_TUNABLES", "")
    )
