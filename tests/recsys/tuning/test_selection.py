from pathlib import Path

import pytest

from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.resolved_config import ResolvedConfig
from recsys.tuning.selection import is_sparse_enough
from recsys.tuning.selection import most_experts
from recsys.tuning.selection import notice_of
from recsys.tuning.sweep import Sweep
from tests.recsys.reporting.run_folders import write_sweep

pytestmark = pytest.mark.once("torch")


def test_the_gates_that_start_dense_have_a_bound() -> None:
    bounds = {gate: most_experts(gate, 2) for gate in GATES}
    bounded = {"comet": 2, "dselect-k": 2, "gumbel-softmax": 4}
    unbounded = ("softmax", "top-k", "switch", "hash", "remoe")
    expected = bounded | dict.fromkeys(unbounded)
    assert {gate: bounds[gate] for gate in expected} == expected
    assert most_experts("gumbel-softmax+", 3) == 4


@pytest.mark.parametrize(
    ("gate", "k", "experts", "expected"),
    [
        ("comet", 2, 2.0, True),
        ("comet", 2, 2.004, True),
        ("comet", 2, 2.006, False),
        ("comet+", 4, 3.9, True),
        ("dselect-k", 1, 1.5, False),
        ("dselect-k", None, 2.5, False),  # The preset's k is 2.
        ("gumbel-softmax", 2, 4.0, True),
        ("gumbel-softmax", 8, 4.5, False),
        ("top-k", 2, 9.0, True),
        ("remoe", 2, 2.3, True),  # Its penalty brings it back.
        ("softmax", 2, 16.0, True),
        ("comet", 2, None, True),  # A shared bottom.
    ],
)
def test_the_mean_is_held_to_the_bound(
    gate: str, k: int | None, experts: float | None, expected: bool
) -> None:
    config = TrainConfig(data="synthetic", out="run", gate=gate, k=k)
    metrics = {"experts_per_example": experts}
    assert is_sparse_enough(ResolvedConfig.of(config), metrics) == expected


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("until", [None, 7])
def test_static_selectors_have_to_be_binary(
    static: bool, until: int | None
) -> None:
    config = TrainConfig(
        data="synthetic",
        out="run",
        gate="dselect-k",
        gate_options={"static": static},
    )
    metrics = {"experts_per_example": 1.5, "steps_until_binary": until}
    is_binary = until is not None
    assert is_sparse_enough(ResolvedConfig.of(config), metrics) == (
        is_binary or not static
    )


def test_static_gates_without_selectors_are_not_asked_for_them() -> None:
    options = {"static": True}
    config = TrainConfig("synthetic", "run", gate="top-k", gate_options=options)
    assert is_sparse_enough(
        ResolvedConfig.of(config), {"experts_per_example": 2.0}
    )


def test_the_notice_counts_by_gate() -> None:
    assert notice_of([], ["comet"]) == ""
    gates = ["comet", "comet", "top-k", "dselect-k"]
    notice = notice_of(["dselect-k", "comet"], gates)
    assert "completed trials: 1 of 1 of dselect-k, 1 of 2 of comet." in notice
    assert "more than k experts per example on average" in notice
    assert "--any-sparsity, in Python sparse_only=False" in notice


def test_dense_trials_are_not_the_best_of_a_sweep(tmp_path: Path) -> None:
    losses = [(0.1, 0.1), (0.3, 0.3), (0.2, 0.2)]
    write_sweep(tmp_path / "sweep", "comet", losses, experts=[2.5, 1.5, 2.0])
    sweep = Sweep(tmp_path / "sweep")
    assert [record["trial"] for record in sweep.best(9)] == ["2", "1"]
    assert "1 of 3 of comet" in sweep.select().notice
    every = sweep.select(sparse_only=False)
    assert [record["trial"] for record in every.trials] == ["0", "2", "1"]
    assert every.notice == ""
