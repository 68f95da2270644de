"""Each part of the two packages imports only what lies below it."""

import ast
from collections.abc import Iterator
from graphlib import CycleError
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import keras_moe
import recsys

pytestmark = pytest.mark.once("torch")

# From the ground up. A module of its own that is not named lies on the ground.
FLOORS = {
    "keras_moe": [
        {"distribution"},
        {"ops"},
        {"metrics", "optimizers", "regularizers"},
        {"layers"},
        {"callbacks"},
        {"__init__"},
    ],
    "recsys": [
        {"errors", "terminal"},
        {"backend", "columns", "files", "metrics"},
        {"config", "distribution", "plots", "serving", "tables"},
        {"features", "tasks", "weighting"},
        {"data"},
        {"retrieval"},
        {"models"},
        {"runs"},
        {"measuring", "processes"},
        {"training"},
        {"tuning"},
        {"reporting"},
        {"exporting"},
        {"api", "stages"},
        {"__init__"},
        {"commands"},
        {"cli"},
        {"__main__", "command_server"},
        {"child_process"},
    ],
}
ROOTS = {
    package.__name__: Path(str(package.__file__)).parent
    for package in (keras_moe, recsys)
}

Graph = dict[str, set[str]]


def imported_modules(file: Path) -> Iterator[str]:
    """All that a file imports, in functions and for type checks as well."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph(root: Path) -> Graph:
    """For each part of a package, the other parts that it imports.

    A part is a folder or a module right below the package's folder.
    """
    part_of = {
        file: file.relative_to(root).with_suffix("").parts[0]
        for file in root.rglob("*.py")
    }
    graph: Graph = {part: set() for part in part_of.values()}
    for file, part in part_of.items():
        for module in imported_modules(file):
            package, _, rest = module.partition(".")
            if package == root.name:
                # What the package itself exports comes from its `__init__`.
                name = rest.partition(".")[0]
                graph[part].add(name if name in graph else "__init__")
    return {part: others - {part} for part, others in graph.items()}


def upward_imports(root: Path, floors: list[set[str]]) -> list[str]:
    """The imports of parts that lie on a higher floor."""
    graph = import_graph(root)
    heights = dict.fromkeys(graph, 0)
    for height, parts in enumerate(floors, start=1):
        heights |= dict.fromkeys(parts, height)
    for part, height in heights.items():
        assert height or not (root / part).is_dir(), f"{part} is on no floor"
    return [
        f"{part} imports {other}"
        for part, others in graph.items()
        for other in sorted(others)
        if heights[other] > heights[part]
    ]


@pytest.mark.parametrize("package", FLOORS)
def test_no_part_imports_what_lies_above_it(package: str) -> None:
    assert upward_imports(ROOTS[package], FLOORS[package]) == []


@pytest.mark.parametrize("package", FLOORS)
def test_no_parts_import_each_other(package: str) -> None:
    TopologicalSorter(import_graph(ROOTS[package])).prepare()


def test_the_library_does_not_know_the_application() -> None:
    for file in ROOTS["keras_moe"].rglob("*.py"):
        for module in imported_modules(file):
            assert module.partition(".")[0] != "recsys", file


@pytest.mark.parametrize(
    "line",
    [
        "from house.attic.box import open",
        "from house.attic import box",
        "from house import attic",
        "import house.attic.box",
        "def call():\n    from house.attic import box",
    ],
)
def test_every_form_of_an_upward_import_is_found(
    tmp_path: Path, line: str
) -> None:
    for part in ("cellar", "attic"):
        (tmp_path / "house" / part).mkdir(parents=True)
    (tmp_path / "house" / "attic" / "box.py").write_text("import house.cellar")
    (tmp_path / "house" / "cellar" / "wine.py").write_text(line)
    floors = [{"cellar"}, {"attic"}]
    found = upward_imports(tmp_path / "house", floors)
    assert found == ["cellar imports attic"]
    with pytest.raises(CycleError):
        TopologicalSorter(import_graph(tmp_path / "house")).prepare()
