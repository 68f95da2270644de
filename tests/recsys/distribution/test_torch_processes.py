"""Runs that two processes train on PyTorch, on this machine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

import recsys
from tests.recsys.conftest import BeginRun
from tests.recsys.distribution.begun_by_one import assert_same_run

on_torch = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="processes share on PyTorch"
)


@on_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "options"),
    [
        ("comet", {"entropy_weight": 0.1}),
        ("top-k", {"balance": "bias", "balance_rate": 0.01}),
        ("budget", {"train_budgets": [1, 1]}),
    ],
)
def test_two_processes_go_on_with_what_one_has_begun(
    gate: str,
    options: dict[str, Any],
    begin_run: BeginRun,
    data: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = sys.executable
    request.getfixturevalue("warm_python")
    if gate == "comet":
        # Those that train start as those of a user do.
        monkeypatch.setenv("PYTHON_EXEC", python)
    # Neither 149 rows of training nor 40 of validation fill whole batches, and
    # the processes have labels of different numbers of rows.
    whole, begun = begin_run(
        gate=gate,
        gate_options=options,
        # One expert for each row: what decides on more is not the same.
        k=1 if gate == "budget" else 2,
        execution="sparse",
        train_rows=149,
        batch_size=30,
    )
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["train", "--out", str(begun), "--resume"]
    words += ["--distribute", "data"]
    process = subprocess.run(
        [sys.executable, "-m", *torchrun, "-m", "recsys", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    # Of one process alone.
    assert process.stdout.count(f"are in {begun}") == 1
    assert_same_run(begun, whole)
    if gate == "budget":
        metrics = recsys.evaluate(begun, data, budget=2)
        assert metrics["experts_per_example"] == pytest.approx(2, abs=0.4)
