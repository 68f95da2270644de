"""What `make test` leaves to another backend is left to one that has it."""

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.house import PROJECT
from tests.once import BACKENDS
from tests.once import TRACED
from tests.once import left_out
from tests.once import longest_files_first
from tests.once import name_in_report

TESTS = Path(__file__).parent

WITH_KERAS = {
    *("jax", "keras", "keras_hub", "keras_rs", "keras_tuner", "tensorflow"),
    "torch",
}
# Imports what its names need once they are read.
API = PROJECT / "recsys" / "__init__.py"
# Ways to Keras that no import shows, and a mark that needs a backend.
BY_NAME = re.compile(
    r"import_module|load_script|runpy|subprocess|warm_python|mark\.draws"
)


def listed() -> list[str]:
    return (TESTS / "without_keras.txt").read_text().split()


def test_files_without_keras_are_there() -> None:
    """Pytest would not miss one that has another name by now."""
    paths = listed()
    assert paths == sorted(set(paths))
    for path in paths:
        assert (TESTS.parent / path).exists(), path
        above = {str(parent) for parent in Path(path).parents}
        assert not above & set(paths), path
        if path.endswith(".py"):
            assert Path(path).name.startswith("test_"), path


@cache
def imports_of(file: Path) -> frozenset[str]:
    """What a file imports, in functions as well."""
    modules: set[str] = set()
    to_visit: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while to_visit:
        match node := to_visit.pop():
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                to_visit += node.orelse
            case ast.Import():
                modules |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                modules |= {f"{node.module}.{name.name}" for name in node.names}
            case _:
                to_visit += ast.iter_child_nodes(node)
    return frozenset(modules)


def files_of(module: str) -> list[Path]:
    """The files of the project that run when a name in it is imported."""
    path, files = PROJECT, []
    for part in module.split("."):
        path /= part
        files += [path.with_suffix(".py"), path / "__init__.py"]
    return [file for file in files if file.is_file()]


def reaches_keras(file: Path) -> bool:
    """Whether a file of tests, or one that it imports, imports Keras anywhere.

    Pytest imports a `conftest.py` with it. Above a listed file, that one starts
    without Keras.
    """
    known = {folder for path in listed() for folder in (PROJECT / path).parents}
    beside = [f / "conftest.py" for f in file.parents if f not in known]
    to_visit = [file, *(conftest for conftest in beside if conftest.is_file())]
    reached = set(to_visit)
    while to_visit:
        for module in imports_of(to_visit.pop()):
            files = files_of(module)
            if module.partition(".")[0] in WITH_KERAS or files == [API]:
                return True
            new = set(files) - reached - {API}
            reached |= new
            to_visit += new
    return False


def test_files_that_cannot_reach_keras_are_listed() -> None:
    """Of files that import it in functions alone, the list decides."""
    without = [
        file
        for file in TESTS.rglob("test_*.py")
        if not BY_NAME.search(file.read_text(encoding="utf-8"))
        and not reaches_keras(file)
    ]
    assert len(without) > 30
    missing = {
        path.as_posix()
        for path in (file.relative_to(PROJECT) for file in without)
        if not {path.as_posix(), *map(str, path.parents)} & set(listed())
    }
    assert missing == set(), "expected in tests/without_keras.txt"


def test_an_import_of_keras_is_found_wherever_it_is(tmp_path: Path) -> None:
    file = tmp_path / "test_here.py"
    for line, reaches in (
        ("import json", False),
        ("import recsys.errors", False),
        ("from recsys.files.atomic import replacing", False),
        ("from recsys import train", True),
        ("def f():\n    from torch import nn", True),
        ("from keras_moe.layers import MMoE", True),
        ("from recsys.models import ranker", True),
    ):
        file.write_text(line)
        imports_of.cache_clear()
        assert reaches_keras(file) is reaches, line


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


@pytest.mark.parametrize("chosen", TRACED)
def test_one_backend_traces_a_marked_test(chosen: str) -> None:
    items = [Item("any"), Item("traced", traced_once=chosen)]
    for backend in (*BACKENDS, "none"):
        has = backend == chosen or backend not in TRACED
        assert left(backend, *items) == ["any", *["traced"] * has]


@pytest.mark.parametrize(
    ("mark", "name"), [("once", "pytorch"), ("traced_once", "torch")]
)
def test_a_backend_that_is_none(mark: str, name: str) -> None:
    """No run would have the test."""
    with pytest.raises(ValueError, match=f"`{mark}` on '{name}'"):
        left("torch", Item("any", **{mark: name}))


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
