import os
import platform
import subprocess
import sys

import pytest

if platform.libc_ver()[0] != "glibc":
    pytest.skip("a setting of glibc", allow_module_level=True)

SIZE = 1 << 26
REPETITIONS = 10
# How many pages are new while memory is asked for, written and freed, after the
# first time.
SCRIPT = f"""
import ctypes, resource
from recsys.training.kept_memory import keep_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def write():
    place = libc.malloc({SIZE})
    ctypes.memset(place, 1, {SIZE})
    libc.free(place)

keep_memory()
write()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({REPETITIONS}):
    write()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(**settings: str) -> int:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }
    output = subprocess.check_output(
        [sys.executable, "-c", SCRIPT], env=env | settings
    )
    return int(output)


def test_freed_memory_is_used_again() -> None:
    assert new_pages() < 10


@pytest.mark.parametrize(
    "settings",
    [
        {"MALLOC_ARENA_MAX": "4"},
        {"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"},
    ],
)
def test_what_the_user_has_set_stays(settings: dict[str, str]) -> None:
    pages = REPETITIONS * SIZE // os.sysconf("SC_PAGE_SIZE")
    assert new_pages(**settings) >= pages
