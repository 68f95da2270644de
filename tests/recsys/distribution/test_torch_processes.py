"""Runs that two processes train on PyTorch, on this machine."""

import subprocess
import sys
from typing import Any

import keras
import pytest

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
    ],
)
def test_two_processes_go_on_with_what_one_has_begun(
    gate: str,
    options: dict[str, Any],
    begin_run: BeginRun,
    request: pytest.FixtureRequest,
) -> None:
    if gate == "top-k":
        # The others start as those of a user do.
        request.getfixturevalue("warm_python")
    # Neither 149 rows of training nor 40 of validation fill whole batches, and
    # the processes have labels of different numbers of rows.
    whole, begun = begin_run(
        gate=gate,
        gate_options=options,
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
