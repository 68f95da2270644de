"""Each part of the two packages imports only what lies below it."""

from graphlib import CycleError
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import keras_moe
import recsys
from tests.house import counts
from tests.house import file_graph
from tests.house import imported_modules
from tests.house import part_graph

pytestmark = pytest.mark.once("torch")

# From the ground up: all folders and modules right below a package's folder.
FLOORS = {
    "keras_moe": [
        {"checks", "distribution", "private_names", "types", "version"},
        {"ops"},
        {"metrics", "optimizers", "regularizers"},
        {"layers"},
        {"callbacks"},
        {"compress"},
        {"__init__"},
    ],
    "recsys": [
        {"errors", "private_names", "terminal"},
        {"backend", "columns", "files", "metrics"},
        {"config", "distribution", "plots", "serving", "tables"},
        {"features", "tasks", "weighting"},
        {"data"},
        {"retrieval"},
        {"sequences"},
        {"models"},
        {"runs"},
        {"measuring", "processes"},
        {"training"},
        {"baselines", "tuning"},
        {"reporting"},
        {"exporting"},
        {"api"},
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


def upward_imports(root: Path, floors: list[set[str]]) -> list[str]:
    """The imports of parts that lie on a higher floor."""
    graph = part_graph(root)
    heights = {
        part: height for height, parts in enumerate(floors) for part in parts
    }
    return [
        f"{part} imports {other}"
        for part, others in graph.items()
        for other in sorted(others)
        if heights[other] > heights[part]
    ]


@pytest.mark.parametrize("package", FLOORS)
def test_every_part_is_on_one_floor(package: str) -> None:
    named = sorted(part for parts in FLOORS[package] for part in parts)
    assert named == sorted(part_graph(ROOTS[package]))


@pytest.mark.parametrize("package", FLOORS)
def test_no_part_imports_what_lies_above_it(package: str) -> None:
    assert upward_imports(ROOTS[package], FLOORS[package]) == []


@pytest.mark.parametrize("package", FLOORS)
def test_no_parts_and_no_files_import_each_other(package: str) -> None:
    TopologicalSorter(part_graph(ROOTS[package])).prepare()
    TopologicalSorter(file_graph(ROOTS[package])).prepare()


def test_the_application_is_no_tangle() -> None:
    found = counts(ROOTS["recsys"])
    assert found["parts"] <= 34
    assert found["arrows"] < 190


@pytest.mark.parametrize("package", FLOORS)
def test_few_files_may_be_half_a_concept(package: str) -> None:
    assert counts(ROOTS[package])["small files"] <= 15


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
        (tmp_path / "house" / part / "__init__.py").touch()
    (tmp_path / "house" / "attic" / "box.py").write_text("import house.cellar")
    (tmp_path / "house" / "cellar" / "wine.py").write_text(line)
    floors = [{"cellar"}, {"attic"}]
    found = upward_imports(tmp_path / "house", floors)
    assert found == ["cellar imports attic"]
    with pytest.raises(CycleError):
        TopologicalSorter(part_graph(tmp_path / "house")).prepare()
