"""Executes the notebooks, and compares what comes out with what they hold."""

import re
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import nbformat
import pytest

from notebooks.execute import FOLDER
from notebooks.execute import execute
from notebooks.execute import source_hash

pytestmark = pytest.mark.once("torch")

MOST_BYTES = 400_000
# Each is executed on one backend: TensorFlow, which the export needs, or the
# one that takes the least time; what comes out is the same but for numbers.
BACKENDS = {
    "quick_start": "tensorflow",
    "gates": "torch",
    "local_search": "torch",
}
NAMES = tuple(BACKENDS)
# Figures take half of the time, most of it for their layout.
_QUICK_FIGURES = {
    '"figure.dpi"] = 80': '"figure.dpi"] = 10',
    'constrained_layout.use"] = True': 'constrained_layout.use"] = False',
}
# `make test` trains for less, where nothing but figures shows it.
SHORTER = {
    "quick_start": {
        # As many steps as on all rows: the gates become sparse.
        '"epochs": 6': '"epochs": 6, "train_rows": 7_000, "batch_size": 64',
    },
    "gates": {
        **_QUICK_FIGURES,
        "(4096, 2)": "(256, 2)",
        "epochs=20": "epochs=1",
    },
    "local_search": _QUICK_FIGURES,
}
# What of an epoch's line fits into a terminal depends on its numbers.
CUT = re.compile(r"(experts #)( val_\w+ #)+")
# Times come with their unit, which changes with them.
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?([mu]?s\b)?")


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def outputs(notebook: Any) -> Iterator[tuple[int, Any]]:
    """The outputs of a notebook, each with the number of its cell."""
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            yield number, output


def text(output: Any) -> str:
    if output.output_type == "stream":
        return output.text
    return output.data.get("text/plain", "")


def summary(notebook: Any) -> list[tuple[Any, ...]]:
    """What is the same on any machine: numbers and spaces are left out."""
    return [
        (
            number,
            output.get("name"),
            sorted(output.get("data", {})),
            CUT.sub(r"\1", " ".join(NUMBER.sub("#", text(output)).split())),
        )
        for number, output in outputs(notebook)
    ]


def shorten(notebook: Any, changes: Mapping[str, str]) -> None:
    """Replaces what stands in the code of a notebook."""
    for old, new in changes.items():
        before = source_hash(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.source = cell.source.replace(old, new)
        assert source_hash(notebook) != before, f"no cell has {old}"


def test_every_notebook_is_tested() -> None:
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_source(name: str) -> None:
    notebook = read(name)
    assert notebook.metadata["executed_source"] == source_hash(notebook), (
        "The source was changed after the execution: run `make notebooks`."
    )


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_stay_small(name: str) -> None:
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MOST_BYTES


def executed_on(backend: str) -> list[pytest.MarkDecorator]:
    other = keras.backend.backend() != backend
    reason = f"executed on {backend}; once is enough"
    return [
        pytest.mark.once(backend),
        pytest.mark.skipif(other, reason=reason),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=executed_on(BACKENDS[one])) for one in BACKENDS],
)
def test_execution_gives_the_same_again(
    name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if BACKENDS[name] == "torch":
        # The kernel of the other one starts as that of a user does.
        request.getfixturevalue("warm_python")
        # As it says itself, which is too late there.
        backend = "module://matplotlib_inline.backend_inline"
        monkeypatch.setenv("MPLBACKEND", backend)
    kept, executed = read(name), read(name)
    if request.config.getoption("--once") and name in SHORTER:
        shorten(executed, SHORTER[name])
    execute(executed, tmp_path)
    for number, output in outputs(executed):
        assert output.get("name") != "stderr", (number, output.text)
        for folder in (Path.home(), tempfile.gettempdir(), FOLDER.parent):
            assert str(folder) not in text(output), number
    assert summary(executed) == summary(kept), "Run `make notebooks`."
