"""Runs that two processes train, on this machine."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import Dataset
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import Share
from recsys.training.batches import StreamedBatches
from tests.recsys.conftest import BeginRun
from tests.recsys.distribution.begun_by_one import assert_same_run
from tests.recsys.distribution.command_processes import run_together

Settings = Callable[..., dict[str, Any]]

pytestmark = [
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="processes share on JAX"
    ),
    pytest.mark.slow,
]


def test_two_processes_go_on_with_what_one_has_begun(
    begin_run: BeginRun,
) -> None:
    # Neither 149 rows of training nor 40 of validation fill whole batches.
    whole, begun = begin_run(
        gate_options={"load_balance_loss_weight": 0.1},
        execution="auto",
        train_rows=149,
        batch_size=30,
    )
    first, second = run_together(
        ["train", "--out", str(begun), "--resume", "--distribute", "experts"]
    )
    assert (first.status, second.status) == (0, 0), (first, second)
    assert str(begun) in first.printed
    assert second.printed == ""
    assert "[Gloo]" not in first.printed
    # TensorFlow has lines of its own.
    assert not re.search("^(Epoch|warning|error)", second.errors, re.MULTILINE)
    assert_same_run(begun, whole)


class Together(StreamedBatches):
    """The batches of two processes, in one."""

    def __init__(self, *arguments: Any) -> None:
        *others, share = arguments
        assert share == WHOLE
        super().__init__(*others)
        self.shares = [
            StreamedBatches(*others, Share(index, 2)) for index in range(2)
        ]

    def shuffle(self, epoch: int, skip: int = 0) -> None:
        super().shuffle(epoch, skip)
        for share in self.shares:
            share.shuffle(epoch, skip)

    def __getitem__(self, index: int) -> Any:
        return keras.tree.map_structure(
            lambda *rows: np.concatenate(rows),
            *(share[index] for share in self.shares),
        )


@pytest.mark.usefixtures("warm_python")
def test_whichever_dies_the_others_end_and_all_can_go_on(
    settings: Settings,
    tiny: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiny.write(tmp_path / "data")
    train = tmp_path / "data" / "train.parquet"
    pd.read_parquet(train).to_parquet(train, row_group_size=9)
    fields = settings(
        tmp_path / "one",
        data=str(tmp_path / "data"),
        streaming=True,
        shuffle_buffer=20,
        # Split over the processes, as are the checkpoints then.
        table_optimizer="lazy-adam",
        unknown_rate=0.0,
        expert_dropout=0.0,
        epochs=2,
        checkpoint_steps=2,
    )
    with monkeypatch.context() as patch:
        patch.setattr("recsys.training.batches.StreamedBatches", Together)
        recsys.train(fields)
    out = tmp_path / "two"
    (tmp_path / "fields.json").write_text(
        json.dumps(fields | {"out": str(out), "distribute": "data"})
    )
    words = ["train", "--config", str(tmp_path / "fields.json")]
    for dies, at in enumerate([(0, 3, signal.SIGKILL), (1, 4, signal.SIGTERM)]):
        ended = run_together(words, {dies: at})
        assert ended[dies].status == -at[-1]
        (when,) = re.findall(r"ended at ([\d.]+)", ended[dies].errors)
        # A second, and a busy machine.
        assert ended[dies].at - float(when) < 20
        other = ended[1 - dies]
        assert other.status == 1
        (line,) = re.findall("^error: .*", other.errors, re.MULTILINE)
        assert f"process {dies} of 2 " in line
        assert "--resume" in line
        assert "Traceback" not in other.errors
        # Of what JAX and gloo have to say about it.
        assert "UNAVAILABLE" not in other.errors
        assert not (out / "metrics.json").exists()
        assert not list((out / "checkpoint").glob("*.npz"))
        assert list((out / "checkpoint").glob("*.orbax"))
        words = ["train", "--out", str(out), "--resume"]
    first, second = run_together(words)
    assert (first.status, second.status) == (0, 0), (first, second)
    assert_same_run(out, tmp_path / "one")
