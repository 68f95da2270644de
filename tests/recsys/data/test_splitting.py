import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data.splitting import split_rows


def rows(number: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"item": range(number), "watch": [1.0, 0.0, 0.0, 0.0] * (number // 4)}
    )


def test_splits_are_disjoint_complete_and_stratified() -> None:
    splits = split_rows(rows(800), "watch", 0.1, 0.125, 0, "rows")
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 630,
        "validation": 90,
        "test": 80,
    }
    items = pd.concat(splits.values())["item"]
    assert sorted(items) == list(range(800))
    for split in splits.values():
        assert split["watch"].mean() == pytest.approx(0.25, abs=0.01)
        assert list(split.index) == list(range(len(split)))


def test_shares_are_rounded_up_but_for_what_floats_add() -> None:
    for number, sizes in {
        200: [140, 30, 30],  # 0.15 / 0.85 * 170 is a float above 30.
        204: [142, 31, 31],  # 30.6 of 204 and 30.5 of the rest
    }.items():
        splits = split_rows(rows(number), "watch", 0.15, 0.15 / 0.85, 0, "r")
        assert [len(split) for split in splits.values()] == sizes


def test_the_seed_decides() -> None:
    tests = [
        split_rows(rows(800), "watch", 0.1, 0.125, seed, "rows")["test"]
        for seed in (1, 1, 2)
    ]
    assert tests[0].equals(tests[1])
    assert not tests[0].equals(tests[2])


def test_too_few_rows() -> None:
    with pytest.raises(DataError) as caught:
        split_rows(rows(4), "watch", 0.1, 0.125, 0, "ratings.dat")
    assert str(caught.value) == (
        "ratings.dat: expected enough rows for three splits. Received: 4 rows"
    )
