"""Runs that one device begins and several go on with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

from recsys.runs.run import Run
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import train_and_copy

Settings = Callable[..., dict[str, Any]]


def begin(settings: Settings, folder: Path, **fields: Any) -> tuple[Path, Path]:
    """Trains a run on one device, and keeps what there was of it in between.

    Nothing in them is drawn while they are trained, and rows of their tables
    are trained on their own.

    Returns:
        The folders of the whole run, and of what was begun.
    """
    whole, begun = folder / "whole", folder / "begun"
    config = settings(
        whole,
        **{
            "gate": "comet",
            "table_optimizer": "lazy-adam",
            "unknown_rate": 0.0,
            "expert_dropout": 0.0,
            "epochs": 2,
            **fields,
        },
    )
    train_and_copy(config, {(1, 3): begun})
    return whole, begun


def assert_same_run(run: Path, other: Path) -> None:
    """Histories, weights and losses of two runs agree, but for rounding.

    But the thresholds of budgets are means of those of the processes, each of
    its own rows of a batch.
    """
    pd.testing.assert_frame_equal(
        read_history(run), read_history(other), rtol=1e-4, atol=1e-5
    )
    weights, others = (
        Run(folder).load_model().weights for folder in (run, other)
    )
    for one, two in zip(weights, others, strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(one),
            ops.convert_to_numpy(two),
            rtol=1e-3,
            atol=0.05 if one.name == "thresholds" else 1e-4,
        )
    metrics, expected = (Run(folder).read_metrics() for folder in (run, other))
    for split in ("validation", "test"):
        assert metrics[split]["loss"] == pytest.approx(
            expected[split]["loss"], rel=1e-4
        )
