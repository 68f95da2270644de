"""Runs that two processes train, on this machine."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys.run import Run
from tests.recsys.distribution.command_processes import run_together
from tests.recsys.stages.histories import read_history
from tests.recsys.stages.interruptions import interrupt_at

Settings = Callable[..., dict[str, Any]]

pytestmark = [
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="processes share on JAX"
    ),
    pytest.mark.slow,
]


def test_two_processes_go_on_with_what_one_has_begun(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruptible: None,
) -> None:
    # Neither 149 rows of training nor 50 of validation fill whole batches.
    fields = settings(
        tmp_path / "one",
        gate="comet",
        gate_options={"load_balance_loss_weight": 0.1},
        execution="auto",
        table_optimizer="lazy-adam",
        unknown_rate=0.0,
        expert_dropout=0.0,
        train_rows=149,
        batch_size=30,
        epochs=3,
    )
    one = recsys.train(fields)
    fields |= {"out": str(tmp_path / "two")}
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=1, batch=3)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    first, second = run_together(
        ["train", "--out", fields["out"], "--resume", "--distribute", "data"]
    )
    assert (first.status, second.status) == (0, 0), (first, second)
    assert fields["out"] in first.printed
    assert second.printed == ""
    # TensorFlow has lines of its own.
    assert not re.search("^(Epoch|warning|error)", second.errors, re.MULTILINE)
    pd.testing.assert_frame_equal(
        read_history(tmp_path / "two"),
        read_history(tmp_path / "one"),
        rtol=1e-4,
        atol=1e-5,
    )
    two = Run(tmp_path / "two").read_metrics()
    for split in ("validation", "test"):
        assert two[split]["loss"] == pytest.approx(one[split]["loss"], rel=1e-4)
