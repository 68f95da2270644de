"""Runs that two processes train on PyTorch, on this machine."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys.run import Run
from tests.recsys.stages.histories import read_history
from tests.recsys.stages.interruptions import interrupt_at

Settings = Callable[..., dict[str, Any]]

on_torch = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="processes share on PyTorch"
)


@on_torch
@pytest.mark.slow
def test_two_processes_go_on_with_what_one_has_begun(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruptible: None,
) -> None:
    # Neither 149 rows of training nor 50 of validation fill whole batches, and
    # the processes have labels of different numbers of rows.
    fields = settings(
        tmp_path / "one",
        gate="comet",
        gate_options={"entropy_weight": 0.1},
        execution="sparse",
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
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["train", "--out", fields["out"], "--resume"]
    words += ["--distribute", "data"]
    process = subprocess.run(
        [sys.executable, "-m", *torchrun, "-m", "recsys", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    # Of one process alone.
    assert process.stdout.count(f"are in {fields['out']}") == 1
    pd.testing.assert_frame_equal(
        read_history(tmp_path / "two"),
        read_history(tmp_path / "one"),
        rtol=1e-4,
        atol=1e-5,
    )
    two = Run(tmp_path / "two").read_metrics()
    for split in ("validation", "test"):
        assert two[split]["loss"] == pytest.approx(one[split]["loss"], rel=1e-4)
