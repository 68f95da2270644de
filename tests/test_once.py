"""What `make test` leaves to another backend is left to one that has it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.once import BACKENDS
from tests.once import left_out
from tests.once import longest_files_first
from tests.once import name_in_report

TESTS = Path(__file__).parent


def test_files_without_keras_are_there() -> None:
    """Pytest would not miss one that has another name by now."""
    paths = (TESTS / "without_keras.txt").read_text().split()
    assert paths == sorted(set(paths))
    for path in paths:
        assert (TESTS.parent / path).exists(), path
        above = {str(parent) for parent in Path(path).parents}
        assert not above & set(paths), path
        if path.endswith(".py"):
            assert Path(path).name.startswith("test_"), path


class Item:
    """A test with one mark or none."""

    def __init__(self, nodeid: str, **marks: Any) -> None:
        self.nodeid = nodeid
        self.marks = marks

    def get_closest_marker(self, name: str) -> Any:
        if name not in self.marks:
            return None
        return SimpleNamespace(args=(self.marks[name],))


def left(backend: str, *items: Any) -> list[str]:
    """Which of these tests a backend has, in their order."""
    elsewhere = left_out([*items], backend)
    return [item.nodeid for item in items if item not in elsewhere]


@pytest.mark.parametrize("backend", [*BACKENDS, "none"])
def test_a_marked_test_runs_on_its_backend_alone(backend: str) -> None:
    items = [Item("any"), *(Item(name, once=name) for name in BACKENDS)]
    own = [backend] if backend in BACKENDS else []
    assert left(backend, *items) == ["any", *own]


def test_a_backend_that_is_none() -> None:
    """No run would have the test."""
    with pytest.raises(ValueError, match="`once` on 'pytorch'"):
        left("torch", Item("any", once="pytorch"))


@pytest.mark.parametrize("every", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 24])
def test_each_backend_has_its_share_of_the_variants(
    every: int, count: int
) -> None:
    items = [Item(f"a.py::b[{n}]", sampled=every) for n in range(count)]
    names = [item.nodeid for item in items]
    assert left("torch", *items) == left("none", *items) == names
    shares = [left(backend, *items) for backend in ("tensorflow", "jax")]
    for share in shares:
        assert share
        assert len(share) in (count // every, -(-count // every), 1)
    if min(every, count) > 1:
        assert not set(shares[0]) & set(shares[1])


def test_a_share_is_no_column_of_a_product() -> None:
    items = [
        Item(f"a.py::b[{one}-{two}]", sampled=3)
        for one in range(12)
        for two in "xyz"
    ]
    assert {name[-2] for name in left("jax", *items)} == {*"xyz"}


def test_each_test_has_a_sample_of_its_own() -> None:
    items = [
        Item(f"a.py::{name}[{n}]", sampled=3) for name in "bc" for n in range(3)
    ]
    items += [Item("a.py::d", sampled=3), Item("a.py::e[0]")]
    assert {name[6] for name in left("tensorflow", *items)} == {*"bcde"}


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/ops/test_a.py::test_b", "tests.ops.test_a::test_b"),
        ("tests/test_a.py::TestB::test_c", "tests.test_a.TestB::test_c"),
        (
            "tests/test_a.py::test_b[1.py::x/y-[2]]",
            "tests.test_a::test_b[1.py::x/y-[2]]",
        ),
    ],
)
def test_names_are_those_of_reports(nodeid: str, name: str) -> None:
    item: Any = Item(nodeid)
    assert name_in_report(item) == name


def test_long_files_come_first_and_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = "test,cpu_seconds\na::x,15\na.TestB::y,25\nb.c::z[1],30\n"
    (tmp_path / "torch.csv").write_text(kept)
    monkeypatch.setattr("tests.once.DURATIONS", tmp_path)
    new, long = "0.py::new", ["a.py::x", "a.py::TestB::y", "a.py::new"]
    short = ["b/c.py::z[2]", "b/c.py::z[1]"]
    items: Any = [Item(name) for name in (new, *short, *long)]
    found = longest_files_first(items, "torch")
    assert [item.nodeid for item in found] == [*long, *short, new]
