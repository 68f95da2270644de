"""The gates' gallery: docs/gates.md and docs/gates/, drawn by a script."""

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.config.gate_names import GATES

pytestmark = pytest.mark.once("torch")

FOLDER = Path(__file__).parent.parent / "docs"
MOST_BYTES = 40_000


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "gates_gallery.py"))


def sections() -> dict[str, str]:
    """The text of each section of the page, by heading."""
    text = (FOLDER / "gates.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## `?([^`\n]+)`?\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_has_its_section_and_figure(gate: str) -> None:
    text = sections()[gate]
    assert f"](gates/{gate}.svg)" in text
    assert GATES[gate].layer in text
    # Two sentences, at least, of what one sees.
    assert len(re.findall(r"\.(?=\s|$)", text.partition(".svg)")[2])) >= 2
    figure = (FOLDER / "gates" / f"{gate}.svg").read_bytes()
    assert len(figure) < MOST_BYTES
    assert f"{gate}: load (%)".encode() in figure


def test_there_are_no_others() -> None:
    assert {file.stem for file in (FOLDER / "gates").iterdir()} == {
        *GATES,
        "problem",
    }
    assert set(GATES) <= set(sections())


def test_a_gate_is_drawn_as_it_weighs(script: dict[str, Any]) -> None:
    trained = script["train"]("top-k", epochs=1)
    side, experts = script["SIDE"], script["EXPERTS"]
    assert trained.weights.shape == (side, side, experts)
    assert ((trained.weights > 0).sum(axis=-1) == 2).all()
    np.testing.assert_allclose(trained.weights.sum(axis=-1), 1, rtol=1e-5)
    assert trained.loads.shape == (2, experts)
    np.testing.assert_allclose(trained.loads.sum(axis=-1), 2)
    *planes, loads = script["draw"]("top-k", trained).axes
    for expert, axes in enumerate(planes):
        (image,) = axes.images
        shown = image.get_array()
        weights = trained.weights[..., expert]
        # Grey where an expert has no weight, however small.
        np.testing.assert_array_equal(np.ma.getmaskarray(shown), weights == 0)
        assert np.abs(shown - weights).max() <= script["STEP"]
    for line, load in zip(loads.lines, trained.loads.T, strict=True):
        np.testing.assert_allclose(line.get_ydata(), 100 * load)


def test_two_trainings_draw_the_same(script: dict[str, Any]) -> None:
    one, other = (script["train"]("switch", epochs=1) for _ in range(2))
    np.testing.assert_array_equal(one.weights, other.weights)


def test_the_planted_problem(script: dict[str, Any]) -> None:
    """Linear in each of four parts, which a jump divides."""
    points = script["plane"]()
    parts, targets = script["sectors"](points), script["targets"](points)
    assert np.bincount(parts).tolist() == [len(points) // 4] * 4
    columns = np.column_stack([points, np.ones(len(points))])
    for part in range(4):
        rows = columns[parts == part]
        values = targets[parts == part]
        fitted = rows @ np.linalg.lstsq(rows, values, rcond=None)[0]
        np.testing.assert_allclose(fitted, values, atol=1e-5)
