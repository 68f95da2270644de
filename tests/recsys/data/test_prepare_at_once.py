"""Processes that prepare the same folder at the same time.

Nothing here imports Keras: the processes import this file.
"""

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys

LOCKED = "expected an output that no other process is writing to"
TRIES = 20


def prepare_some_often(
    number: int, folder: Path, barrier: Barrier, results: Any
) -> None:
    for count in range(TRIES):
        barrier.wait(timeout=60)
        said = "whole"
        try:
            recsys.prepare(
                "table",
                folder / "raw",
                folder / f"out-{count}",
                seed=number,
                progress=False,
                train="log.csv",
                ids="user",
                binary="click",
            )
        except Exception as error:  # Any but the two below fails the test.
            said = str(error)
        results.put((count, number, said))


@pytest.mark.slow
def test_two_that_prepare_at_once_do_not_mix_their_splits(
    tmp_path: Path,
) -> None:
    """They draw different splits; each folder is wholly of one of them."""
    rows = 2000
    log = pd.DataFrame({"user": np.arange(rows), "click": np.arange(rows) % 2})
    (tmp_path / "raw").mkdir()
    log.to_csv(tmp_path / "raw" / "log.csv", index=False)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(
            target=prepare_some_often, args=(number, tmp_path, barrier, results)
        )
        for number in range(2)
    ]
    for process in processes:
        process.start()
    said = [results.get(timeout=300) for _ in range(2 * TRIES)]
    for process in processes:
        process.join()
    for count in range(TRIES):
        users = [
            pd.read_parquet(tmp_path / f"out-{count}" / f"{split}.parquet")
            for split in ("train", "validation", "test")
        ]
        drawn = pd.concat(users)["user"]
        assert sorted(drawn) == list(range(rows))
        one, other = sorted(
            (text for number, _, text in said if number == count),
            key=lambda text: text != "whole",
        )
        assert one == "whole"
        assert LOCKED in other or "a new or empty folder" in other
    assert any(LOCKED in text for _, _, text in said)
    folders = {path.name for path in tmp_path.iterdir()}
    assert folders == {"raw", *(f"out-{count}" for count in range(TRIES))}
