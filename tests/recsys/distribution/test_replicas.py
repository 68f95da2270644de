"""Runs that two replicas train on TensorFlow, in one process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.runs.run import Run
from recsys.training.data_parallel import distributed
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import train_and_copy

Settings = Callable[..., dict[str, Any]]

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="replicas of TensorFlow"
)
# Two devices, to be set before TensorFlow starts, go on with all runs. A step
# is run a few times: optimizing its graph takes longer.
TWO_DEVICES = """
import sys

import tensorflow as tf
from matplotlib.figure import Figure

from tests.blank_figures import save_blank

Figure.savefig = save_blank
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

(cpu,) = tf.config.list_physical_devices("CPU")
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)

from recsys.__main__ import main

for out in sys.argv[1:]:
    sys.argv = ["recsys", "train", "--out", out, "--resume"]
    sys.argv += ["--distribute", "data"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


# A loss of the gate, a bias that follows the load, and thresholds.
GATES: dict[str, dict[str, Any]] = {
    "comet": {"entropy_weight": 0.1},
    "top-k": {"balance": "bias", "balance_rate": 0.01},
    "budget": {"train_budgets": [1, 1]},
}


@on_tensorflow
@pytest.mark.slow
def test_two_replicas_go_on_with_what_one_device_has_begun(
    settings: Settings, tmp_path: Path
) -> None:
    # One process goes on with models whose gradients have other shapes.
    whole = {}
    for gate, options in GATES.items():
        # Neither 149 rows of training nor 40 of validation fill whole batches,
        # and the replicas have labels of different numbers of rows.
        fields = settings(
            tmp_path / gate,
            gate=gate,
            gate_options=options,
            # One expert for each row: what decides on more is not the same.
            k=1 if gate == "budget" else 2,
            execution="sparse",
            table_optimizer="lazy-adam",
            unknown_rate=0.0,
            expert_dropout=0.0,
            train_rows=149,
            batch_size=30,
            epochs=2,
        )
        whole[gate] = train_and_copy(fields, {(1, 3): tmp_path / f"two-{gate}"})
    begun = [str(tmp_path / f"two-{gate}") for gate in GATES]
    subprocess.run(
        [sys.executable, "-c", TWO_DEVICES, *begun], check=True, timeout=600
    )
    for gate, metrics in whole.items():
        two = tmp_path / f"two-{gate}"
        pd.testing.assert_frame_equal(
            read_history(two),
            read_history(tmp_path / gate),
            rtol=1e-4,
            atol=1e-5,
        )
        for split in ("validation", "test"):
            loss = Run(two).read_metrics()[split]["loss"]
            assert loss == pytest.approx(metrics[split]["loss"], rel=1e-4)
    thresholds = [
        ops.convert_to_numpy(weight)
        for folder in (tmp_path / "two-budget", tmp_path / "budget")
        for weight in Run(folder).load_model().weights
        if weight.name == "thresholds"
    ]
    # Means over two replicas, of two tasks; those of one device.
    np.testing.assert_allclose(thresholds[:2], thresholds[2:], atol=0.05)


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
