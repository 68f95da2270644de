"""What `make test` leaves to another backend, by the marks of the tests.

`once("torch")` is a test of what no backend can change: PyTorch has it, and no
other. `traced_once("jax")` is a test of what is made of layers and of trainings
that have tests on each backend: PyTorch has it, which runs operations one by
one, and the named one of the two that trace a program of them. `sampled(3)` is
a test with many variants, which differ in what a backend can hardly tell apart:
PyTorch has them all, each other backend a third of its own. Without `--once`,
as in `make test-all`, every backend has every test.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parent / "durations"  # What was kept of each.
TRACED = ("tensorflow", "jax")
BACKENDS = (*TRACED, "torch")
# What has all variants: it compiles nothing, and is the fastest by far.
WITH_ALL = "torch"


def left_out(items: list[pytest.Item], backend: str) -> set[pytest.Item]:
    """The tests of which other backends take care.

    Raises:
        ValueError: If a mark names no backend.
    """
    others = {item for item in items if once_on(item) not in (None, backend)}
    others.update(_traced_elsewhere(items, backend))
    if backend not in (WITH_ALL, "none"):
        others.update(_beyond_the_sample(items, backend))
    return others


def once_on(item: pytest.Item) -> str | None:
    """The one backend that `make test` runs a test on, if it is marked."""
    return _named(item, "once", BACKENDS)


def _named(
    item: pytest.Item, mark: str, choices: tuple[str, ...]
) -> str | None:
    """The backend that a mark names, if a test has it."""
    marker = item.get_closest_marker(mark)
    if marker is None:
        return None
    (backend,) = marker.args
    if backend not in choices:
        raise ValueError(f"{item.nodeid}: `{mark}` on {backend!r}")
    return str(backend)


def name_in_report(item: pytest.Item) -> str:
    """What `--junitxml` calls a test: `tests.test_a.TestB::test_c[1]`."""
    names, bracket, variant = item.nodeid.partition("[")
    file, *path = names.split("::")
    module = file.removesuffix(".py").replace("/", ".")
    return f"{'.'.join([module, *path[:-1]])}::{path[-1]}{bracket}{variant}"


def longest_files_first(
    items: list[pytest.Item], backend: str
) -> list[pytest.Item]:
    """Files that take minutes come first: at the end, one worker had them.

    The tests of a file stay together, in their order, and share its fixtures.
    """
    file = DURATIONS / f"{backend}.csv"
    seconds: defaultdict[str, float] = defaultdict(float)
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            seconds[_module(row["test"])] += float(row["cpu_seconds"])
    return sorted(
        items, key=lambda item: -seconds[_module(name_in_report(item))]
    )


def _module(name: str) -> str:
    """`tests.test_a` of `tests.test_a.TestB::test_c[1]`."""
    return ".".join(
        part
        for part in name.partition("::")[0].split(".")
        if not part.startswith("Test")
    )


def _traced_elsewhere(
    items: list[pytest.Item], backend: str
) -> Iterator[pytest.Item]:
    """The tests that only the other one of those that trace is to run."""
    for item in items:
        chosen = _named(item, "traced_once", TRACED)
        if chosen is not None and backend in TRACED and backend != chosen:
            yield item


def _beyond_the_sample(
    items: list[pytest.Item], backend: str
) -> Iterator[pytest.Item]:
    """All variants but each n-th; the backends begin at different ones."""
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            variants[item.nodeid.partition("[")[0]].append(item)
    for group in variants.values():
        marker = group[0].get_closest_marker("sampled")
        assert marker is not None
        (every,) = marker.args
        group.sort(key=_shuffled)
        first = BACKENDS.index(backend) % min(every, len(group))
        yield from (
            item for number, item in enumerate(group) if number % every != first
        )


def _shuffled(item: pytest.Item) -> bytes:
    """Orders variants by what has nothing to do with their parameters.

    Each third of a product of eight by three would be one column of it. Tests
    of the same parameters keep the same ones, and their fixtures are shared.
    """
    return sha256(item.nodeid.partition("[")[2].encode()).digest()
