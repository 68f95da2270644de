"""Runs the Python of README.md and of the first pages of the documentation."""

import re
from pathlib import Path
from typing import Any

import keras
import pytest

from keras_moe import layers
from keras_moe.layers import Gate
from recsys.config.gate_names import GATES
from recsys.models.gates import create_gate

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_the_mixture_of_the_readme_has_a_head_for_each_task() -> None:
    _, code = blocks("README.md")
    names: dict[str, Any] = {}
    exec(code, names)
    assert {*names["model"].output} == {"watch", "rating"}


def gate_rows(page: str) -> dict[str, list[str]]:
    """The other cells of the table of gates, by gate."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+Gate)` \| (.*) ?\|$", text, re.M)
    return {name: [*map(str.strip, row.split("|"))] for name, row in rows}


def sparse(gate: Gate) -> str:
    """Whether experts are skipped in training, and at inference."""
    if gate.always_dense:
        return "no / no"
    if gate.dense_in_training:
        return "no / yes"
    is_sparse = gate.is_bounded(training=True) or gate.takes_budget
    return f"{'yes' if is_sparse else 'later'} / yes"


@pytest.mark.once("torch")
def test_the_table_of_gates_is_that_of_their_page() -> None:
    shown, in_full = gate_rows("README.md"), gate_rows("docs/gates.md")
    assert list(shown) == list(in_full)
    exported = vars(layers).values()
    gates = {each for each in exported if isinstance(each, type)}
    assert set(shown) == {
        gate.__name__ for gate in gates if issubclass(gate, Gate)
    } - {"Gate", "LogitGate", "ScoredGate"}
    for name, (experts, _, _, source) in shown.items():
        assert experts == re.split("[,;]", in_full[name][0])[0]
        assert source == in_full[name][2].split(";")[0]


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", GATES)
def test_the_table_of_gates_says_what_they_say_of_themselves(name: str) -> None:
    gate = create_gate(name, 8, k=2, num_buckets=9, seed=1, options={})
    _, is_sparse, looks, _ = gate_rows("README.md")[type(gate).__name__]
    assert is_sparse == sparse(gate)
    by_example = "yes" if gate.feature_rank else "its id"
    assert looks == ("no" if gate.static else by_example)


@pytest.mark.once("torch")
def test_the_mixture_of_the_concepts_computes() -> None:
    (code,) = blocks("docs/concepts.md")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["mixture"](keras.ops.ones((3, 5))).shape == (3, 32)


@pytest.mark.slow
@pytest.mark.once("torch")
def test_the_home_page_recommends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/index.md")
    assert len(code.splitlines()) <= 16
    code = code.replace("4000", "600").replace('"epochs": 5', '"epochs": 1')
    names: dict[str, Any] = {}
    exec(code, names)
    assert len(names["recommender"].recommend("u007", 5)) == 5
