"""Runs that several devices train."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.training.data_parallel import distributed
from tests.recsys.conftest import BeginRun
from tests.recsys.distribution.begun_by_one import assert_same_run
from tests.virtual_devices import environment

Settings = Callable[..., dict[str, Any]]

on_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="devices share batches on JAX"
)
DEVICES = 4


@on_jax
@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_groups_of_devices_go_on_with_what_one_has_begun(
    begin_run: BeginRun, tiny: Dataset, tmp_path: Path
) -> None:
    # The 37 rows of validation do not divide by 4, and tables are split.
    splits = {**tiny.splits, "validation": tiny.split("validation")[:37]}
    Dataset(tiny.schema, splits).write(tmp_path / "data")
    whole, begun = begin_run(
        data=str(tmp_path / "data"),
        gate_options={"load_balance_loss_weight": 0.1},
        execution="sparse",
        batch_size=32,
        min_table_rows=5,
    )
    words = ["train", "--out", str(begun), "--resume"]
    words += ["--distribute", "both", "--expert-devices", "2"]
    subprocess.run(
        [sys.executable, "-m", "recsys", *words],
        check=True,
        env=environment(DEVICES),
    )
    assert_same_run(begun, whole)


@on_jax
def test_one_device_has_nothing_to_divide(
    settings: Settings, tmp_path: Path
) -> None:
    config = settings(tmp_path / "run", distribute="data")
    with pytest.raises(ValueError, match=r"`distribute`.*one device.*cpu:0"):
        recsys.train(config)
    assert not (tmp_path / "run").exists()


@on_jax
@pytest.mark.parametrize(("batch_size", "num_rows"), [(30, 99), (99, 30)])
def test_a_batch_that_does_not_divide(
    batch_size: int, num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [f"cpu:{number}" for number in range(DEVICES)]
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: devices)
    config = TrainConfig(
        data="synthetic", out="run", distribute="data", batch_size=batch_size
    )
    with (
        pytest.raises(ValueError, match=r"`batch_size`.* 4 devices.* 30 rows"),
        distributed(ResolvedConfig.of(config), num_rows),
    ):
        pass


@on_jax
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distribute": "both"}, "`expert_devices` must be given"),
        ({"expert_devices": 2}, "left out with 'experts'.*expert_devices=2"),
        ({"num_experts": 6}, "num_experts=6, on 4 devices"),
        (
            {"distribute": "both", "expert_devices": 3, "num_experts": 6},
            "all devices, 4.*on 3 devices",
        ),
    ],
)
def test_experts_that_do_not_divide(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [f"cpu:{number}" for number in range(DEVICES)]
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: devices)
    fields = {"distribute": "experts", "num_experts": 8} | change
    config = TrainConfig(data="synthetic", out="run", batch_size=32, **fields)
    with (
        pytest.raises(ValueError, match=message),
        distributed(ResolvedConfig.of(config), 99),
    ):
        pass


@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="devices share batches on JAX"
)
def test_a_process_alone_on_other_backends(
    settings: Settings, tmp_path: Path
) -> None:
    config = settings(tmp_path / "run", distribute="data")
    says = {"torch": "alone; `torchrun", "tensorflow": "`backend='jax'`"}
    says_so = says[keras.backend.backend()]
    with pytest.raises(ValueError, match=f"`distribute` must be.*{says_so}"):
        recsys.train(config)
    assert not (tmp_path / "run").exists()
