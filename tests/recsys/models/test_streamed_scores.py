"""Scores of a split that is read unit by unit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys import Dataset
from recsys import Schema
from recsys import TrainConfig
from recsys.data.streaming.split_stream import SplitStream
from recsys.models.build import build_ranker
from recsys.models.scorer import Scorer
from recsys.training.resolve_config import resolve_config

FEATURES = {
    "tags": "ids",
    "weighed": {"type": "ids", "weighted": True, "pooling": "sum"},
}


def table(lengths: list[int], texts: bool) -> pd.DataFrame:
    """Rows with lists of ids, of which some weigh nothing."""
    rng = np.random.default_rng(0)

    def ids(length: int) -> list[Any]:
        numbers = 2**53 + rng.permutation(9)[:length]
        return [f"{n}\0" if texts else int(n) for n in numbers]

    tags = [ids(length) for length in lengths]
    return pd.DataFrame(
        {
            "tags": tags,
            "weighed": [[f"{id}:0.5" for id in list] for list in tags],
            "watch": np.arange(len(lengths)) % 2,
        }
    )


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("texts", [False, True], ids=["ints", "texts"])
def test_lists_may_be_longer_than_those_before(
    texts: bool, tmp_path: Path
) -> None:
    schema = Schema("lists", FEATURES, {"watch": "binary"})
    train, test = table([3, 2] * 8, texts), table([1] * 8 + [3, 7] * 4, texts)
    dataset = Dataset(
        schema, {"train": train, "validation": train, "test": test}
    )
    config = TrainConfig(
        *("lists", "run", "top-k"),
        num_experts=4,
        k=2,
        embedding_dim=4,
        expert_units=[4],
        head_units=[],
    )
    ranker = build_ranker(resolve_config(config, schema), dataset)
    folder = tmp_path / "test"
    folder.mkdir()
    # Units of five rows, one with lists of 1, 3 and 7 ids.
    test.to_parquet(folder / "0.parquet", index=False, row_group_size=5)
    stream = SplitStream(tmp_path, "test", schema.columns)
    scorer = Scorer(ranker, batch_size=4)
    held, streamed = scorer.score(test), scorer.score(stream)
    np.testing.assert_allclose(
        streamed.predictions["watch"], held.predictions["watch"], rtol=1e-6
    )
    assert np.ptp(held.predictions["watch"]) > 0
