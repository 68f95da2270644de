"""Ids that come and go day by day, against a slow reference."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.features.id_turnover import IdTurnover
from recsys.features.id_uses import IdUses
from recsys.features.value_counts import ValueCounts

LARGE = 2**53

Day = list[Any]
State = tuple[pd.Index, IdUses]

# Neighbours that a float does not tell apart, and texts.
INTEGERS = [LARGE + number for number in range(7)]
TEXTS = [f"id-{number}" for number in range(6)] + [str(LARGE + 1)]


def first() -> State:
    return pd.Index([]), IdUses.uncounted(0)


def counted(day: Day) -> pd.Series:
    """As `ids_after_day` counts, in parts."""
    with ValueCounts() as counts:
        for part in np.array_split(np.array(day, object), 2):
            counts.add(pd.Series(list(part)))
        return pd.concat([pd.Series([], dtype="int64"), *counts.sorted()])


def after(
    turnover: IdTurnover, days: list[Day], min_count: int = 1
) -> list[State]:
    """The state after each day."""
    states = [first()]
    for day in days:
        states.append(turnover.after_day(*states[-1], counted(day), min_count))
    return states[1:]


def reference(
    turnover: IdTurnover, days: list[Day], min_count: int
) -> list[set[Any]]:
    """The ids after each day, from the log up to it."""
    known: set[Any] = set()
    sets = []
    for number, day in enumerate(days, 1):
        window = days[max(0, number - turnover.count_days) : number]
        totals = Counter(id for past in window for id in past)
        last = {
            id: past for past, ids in enumerate(days[:number], 1) for id in ids
        }
        chosen = known | {id for id in day if totals[id] >= min_count}
        if turnover.evict_after is not None:
            chosen = {
                id for id in chosen if number - last[id] < turnover.evict_after
            }

        def rank(id: Any) -> Any:
            by = [-last[id], -totals[id]]  # noqa: B023
            if turnover.evict_by == "frequent":
                by.reverse()
            return (*by, id not in known, id)  # noqa: B023

        room = None if turnover.max_rows is None else turnover.max_rows - 1
        known = set(sorted(chosen, key=rank)[:room])
        sets.append(known)
    return sets


@st.composite
def logs(draw: st.DrawFn) -> tuple[IdTurnover, list[Day], int]:
    ids = draw(st.sampled_from([INTEGERS, TEXTS]))
    days = st.lists(st.lists(st.sampled_from(ids), max_size=9), max_size=7)
    turnover = IdTurnover(
        draw(st.integers(1, 4)),
        draw(st.none() | st.integers(1, 4)),
        draw(st.none() | st.integers(2, 6)),
        draw(st.sampled_from(["recent", "frequent"])),
    )
    return turnover, draw(days), draw(st.integers(1, 3))


@given(logs())
@settings(max_examples=60, deadline=None)
def test_ids_are_those_of_the_whole_log(
    log: tuple[IdTurnover, list[Day], int],
) -> None:
    turnover, days, min_count = log
    expected = reference(turnover, days, min_count)
    before = first()
    for day, (ids, uses), wanted in zip(
        days, after(turnover, days, min_count), expected, strict=True
    ):
        assert ids.is_unique
        assert set(ids) == wanted
        assert len(ids) < (turnover.max_rows or np.inf)
        assert uses.is_consistent(len(ids))
        # Who stays keeps its number unless there are fewer numbers now, and
        # the others take free ones in order, those that lost theirs first.
        held = list(before[0])
        stay = [
            id in wanted and number < len(ids) for number, id in enumerate(held)
        ]
        others = [
            id
            for number, id in enumerate(ids)
            if number >= len(held) or not stay[number]
        ]
        for number, id in enumerate(held):
            if stay[number]:
                assert ids[number] == id
        moved = [id for id in held[len(ids) :] if id in wanted]
        assert others == moved + sorted(wanted - set(held))
        # The order of the rows of a day says nothing.
        again, same = turnover.after_day(*before, counted(day[::-1]), min_count)
        assert again.equals(ids)
        for name in ("last", "ids", "days", "counts"):
            np.testing.assert_array_equal(
                getattr(same, name), getattr(uses, name)
            )
        before = ids, uses


@pytest.mark.parametrize("ids", [INTEGERS, TEXTS])
def test_a_rare_id_enters_by_its_count_within_the_window(ids: Day) -> None:
    a, b = ids[:2]
    turnover = IdTurnover(count_days=2)
    known = [list(i) for i, _ in after(turnover, [[a], [b], [a], [a]], 2)]
    assert known == [[], [], [], [a]]
    known = [list(i) for i, _ in after(turnover, [[a], [a, b], [b]], 2)]
    assert known == [[], [a], [a, b]]


@pytest.mark.parametrize("ids", [INTEGERS, TEXTS])
def test_an_id_leaves_after_days_without_use(ids: Day) -> None:
    a, b, c = ids[:3]
    days = [[a, b], [b], [b, c], [a]]
    known = [list(i) for i, _ in after(IdTurnover(evict_after=2), days)]
    # c takes the number of a, which comes back behind it.
    assert known == [[a, b], [a, b], [c, b], [c, b, a]]


@pytest.mark.parametrize("ids", [INTEGERS, TEXTS])
def test_a_full_table_keeps_what_was_used_last_or_most(ids: Day) -> None:
    a, b, c = ids[:3]
    days = [[a, a, a, b], [b, c]]
    recent = after(IdTurnover(max_rows=3), days)
    assert list(recent[1][0]) == [c, b]
    frequent = after(IdTurnover(max_rows=3, evict_by="frequent"), days)
    assert list(frequent[1][0]) == [a, b]
    # What did not get in is counted all the same.
    assert frequent[1][1].unnumbered.tolist() == [c]


def test_gaps_are_filled_by_the_last_numbers() -> None:
    days = [list("abcde"), list("aed")]
    assert list(after(IdTurnover(evict_after=1), days)[1][0]) == list("ade")


def test_integers_become_texts_with_the_first_text() -> None:
    turnover = IdTurnover(evict_after=2)
    ids, uses = after(
        turnover, [[LARGE + 1, LARGE + 2], ["x", str(LARGE + 2)]]
    )[1]
    assert list(ids) == [str(LARGE + 1), str(LARGE + 2), "x"]
    assert uses.last.tolist() == [1, 2, 2]


def test_ids_of_uncounted_days_were_used_on_the_last_one() -> None:
    turnover = IdTurnover(evict_after=2)
    ids, uses = turnover.after_day(
        pd.Index(["a", "b"]), IdUses.uncounted(2), counted(["b", "b"]), 1
    )
    assert (list(ids), uses.last.tolist()) == (["a", "b"], [0, 1])
    ids, _ = turnover.after_day(ids, uses, counted(["b"]), 1)
    assert list(ids) == ["b"]


def test_counts_outside_of_the_window_are_dropped() -> None:
    days = [[LARGE + 1, LARGE + 3], [LARGE + 1], [], []]
    states = after(IdTurnover(count_days=2), days, min_count=2)
    assert [len(uses.counts) for _, uses in states] == [2, 3, 1, 0]
    assert [len(uses.unnumbered) for _, uses in states] == [2, 1, 0, 0]
