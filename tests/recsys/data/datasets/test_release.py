import logging

import pytest

from recsys.data import DataError
from recsys.data.datasets.release import check_release

PUBLISHED = {"ratings": 9, "users": 3}


def test_the_whole_release(caplog: pytest.LogCaptureFixture) -> None:
    assert check_release("films", "a.csv", PUBLISHED, PUBLISHED)
    assert not caplog.messages


def test_a_subset_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counts = {"ratings": 8, "users": 3}
        assert not check_release("films", "a.csv", counts, PUBLISHED)
    assert caplog.messages == [
        "a.csv holds 8 ratings, films has 9: prepared as a subset."
    ]


def test_other_counts_of_a_whole_release_are_refused() -> None:
    counts = {"ratings": 9, "users": 4}
    with pytest.raises(DataError) as caught:
        check_release("films", "a.csv", counts, PUBLISHED)
    assert str(caught.value) == (
        "a.csv: expected {'ratings': 9, 'users': 3}. "
        "Received: {'ratings': 9, 'users': 4}"
    )
