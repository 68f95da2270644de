"""Runs that two replicas train on TensorFlow, in one process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.runs.run import Run
from recsys.training.data_parallel import distributed
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import interrupt_at

Settings = Callable[..., dict[str, Any]]

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="replicas of TensorFlow"
)
# `recsys` with two devices, which are to be set before TensorFlow starts.
TWO_DEVICES = """
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)

from recsys.__main__ import main

main()
"""


@on_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "options"),
    [
        ("comet", {"entropy_weight": 0.1}),
        ("top-k", {"balance": "bias", "balance_rate": 0.01}),
    ],
)
def test_two_replicas_go_on_with_what_one_device_has_begun(
    gate: str,
    options: dict[str, Any],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruptible: None,
) -> None:
    # Neither 149 rows of training nor 50 of validation fill whole batches, and
    # the replicas have labels of different numbers of rows.
    fields = settings(
        tmp_path / "one",
        gate=gate,
        gate_options=options,
        execution="sparse",
        table_optimizer="lazy-adam",
        unknown_rate=0.0,
        expert_dropout=0.0,
        train_rows=149,
        batch_size=30,
        epochs=2,
    )
    one = recsys.train(fields)
    fields |= {"out": str(tmp_path / "two")}
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=1, batch=3)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    words = ["train", "--out", fields["out"], "--resume"]
    words += ["--distribute", "data"]
    subprocess.run(
        [sys.executable, "-c", TWO_DEVICES, *words], check=True, timeout=600
    )
    pd.testing.assert_frame_equal(
        read_history(tmp_path / "two"),
        read_history(tmp_path / "one"),
        rtol=1e-4,
        atol=1e-5,
    )
    two = Run(tmp_path / "two").read_metrics()
    for split in ("validation", "test"):
        assert two[split]["loss"] == pytest.approx(one[split]["loss"], rel=1e-4)


@on_tensorflow
@pytest.mark.parametrize(
    ("change", "variables", "message"),
    [
        ({"distribute": "experts"}, {}, r"'data' or 'none'.*`backend='jax'`"),
        ({}, {"TF_CONFIG": "{}"}, r"'jax' or 'torch'.*TF_CONFIG"),
        ({"retrieval": True}, {}, r"`retrieval`.*`backend='jax'`"),
        ({}, {}, r"one device; take `backend='jax'`.*CPU:0"),
    ],
)
def test_what_replicas_cannot_do(
    change: dict[str, Any],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    fields = {"distribute": "data"} | change
    config = TrainConfig(data="synthetic", out="run", batch_size=32, **fields)
    with (
        pytest.raises(ValueError, match=message),
        distributed(ResolvedConfig.of(config), 99),
    ):
        pass
