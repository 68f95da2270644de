"""The figure of how the levels of a `PLE` are wired, docs/ple.svg."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate

pytestmark = pytest.mark.once("torch")

FOLDER = Path(__file__).parent.parent / "docs"
SHARED = "shared"
# No two sums of some of these are alike.
EXPERTS = {"task A's": 1, SHARED: 2, "task B's": 4}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "ple_figure.py"))


def drawn_gates(script: dict[str, Any]) -> list[dict[str, list[str]]]:
    """Each level's gates, with the groups of experts that they weigh."""
    levels: list[dict[str, list[str]]] = []
    draw = script["draw"]
    original = draw.__globals__["level"]
    draw.__globals__["level"] = lambda axes, number, gates: levels.append(gates)
    try:
        draw()
    finally:
        draw.__globals__["level"] = original
    return levels


def as_cgc(gates: dict[str, list[str]]) -> CGC:
    """A level as drawn. A gate over other experts than its own is refused."""
    made = {
        name: SoftmaxGate(sum(EXPERTS[group] for group in groups))
        for name, groups in gates.items()
    }
    shared_gate = made.pop(SHARED, None)
    return CGC(
        made,
        MLPExperts(EXPERTS[SHARED], 3),
        {task: MLPExperts(EXPERTS[task], 3) for task in made},
        shared_gate=shared_gate,
    )


def test_the_levels_drawn_are_levels_of_a_ple(script: dict[str, Any]) -> None:
    inner, last = drawn_gates(script)
    assert SHARED in inner
    assert SHARED not in last
    outputs = PLE([as_cgc(inner), as_cgc(last)])(np.ones((2, 5), "float32"))
    assert {task: tuple(y.shape) for task, y in outputs.items()} == {
        "task A's": (2, 3),
        "task B's": (2, 3),
    }


def test_another_wiring_is_none(script: dict[str, Any]) -> None:
    inner, last = drawn_gates(script)
    with pytest.raises(ValueError, match="experts"):
        as_cgc({**inner, "task A's": ["task A's", "task B's"]})
    with pytest.raises(ValueError, match="shared"):
        PLE([as_cgc(last), as_cgc(inner)])


def test_the_file_is_what_the_script_draws(script: dict[str, Any]) -> None:
    (axes,) = script["draw"]().axes
    kept = (FOLDER / "ple.svg").read_text(encoding="utf-8")
    texts = {
        line for text in axes.texts for line in text.get_text().split("\n")
    }
    assert len(texts) > 10
    for text in texts - {""}:
        assert text.replace("'", "&#39;") in kept or text in kept, text
