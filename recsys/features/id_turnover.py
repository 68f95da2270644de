from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.features.id_uses import IdUses

RECENT, FREQUENT = "recent", "frequent"


@dataclass(frozen=True)
class IdTurnover:
    """Which ids enter and leave a vocabulary when a new day is counted.

    An id of the new day enters if it occurred `min_count` times within the
    last `count_days` days. An id that did not occur for `evict_after` days
    leaves. If more would stay than there are rows for, those that were used
    most recently stay, by the last day and then the count within the window;
    or those used most frequently, by that count and then the last day. Of
    equals, ids with a number stay rather than new ones, then smaller ids.

    Ids that stay keep their numbers, and new ones take those that became free,
    in ascending order; unless there are fewer ids than before: those with the
    largest numbers then take free ones first, so that numbers have no gaps.

    Attributes:
        count_days: Days of the window, the new one included. Defaults to 7.
        evict_after: Days without use; `None` (default): no limit.
        max_rows: Rows of a table, that of unknown ids included; `None`
            (default): no limit.
        evict_by: `"recent"` (default) or `"frequent"`.

    Example:
    >>> turnover = IdTurnover(max_rows=3)
    >>> uses = IdUses.uncounted(2)
    >>> ids, uses = turnover.after_day(
    ...     pd.Index(["a", "b"]), uses, pd.Series({"b": 1, "c": 2}), 1
    ... )
    >>> ids.tolist(), uses.last.tolist()
    (['c', 'b'], [1, 1])
    """

    count_days: int = 7
    evict_after: int | None = None
    max_rows: int | None = None
    evict_by: str = RECENT

    def after_day(
        self, known: pd.Index, uses: IdUses, today: pd.Series, min_count: int
    ) -> tuple[pd.Index, IdUses]:
        """Returns the ids by number after a further day, and their uses.

        Args:
            known: The ids by number, integers or strings.
            uses: Their uses up to now.
            today: How often each id occurs on the new day, indexed by the ids
                in ascending order.
            min_count: How often an id must occur within the window to enter.
        """
        day, num_known = uses.day + 1, len(known)
        known, candidates, of_today = _in_one_form(
            known, uses.unnumbered, today.index
        )
        ids = known.append(candidates)
        ids = ids.append(of_today[~of_today.isin(ids)])
        recent = uses.days > day - self.count_days
        places: npt.NDArray[np.intp] = np.append(
            uses.ids[recent], ids.get_indexer(of_today)
        ).astype(np.intp)
        days = np.append(uses.days[recent], np.full(len(today), day))
        counts = np.append(uses.counts[recent], today.to_numpy())

        totals = np.zeros(len(ids), np.int64)
        np.add.at(totals, places, counts)
        last = np.zeros(len(ids), np.int64)
        last[:num_known] = uses.last
        np.maximum.at(last, places, days)
        is_known = np.arange(len(ids)) < num_known
        stays = is_known | ((last == day) & (totals >= min_count))
        if self.evict_after is not None:
            stays &= day - last < self.evict_after
        chosen = self._within_rows(
            np.flatnonzero(stays), ids, last, totals, is_known
        )
        new = chosen[chosen >= num_known]
        by_number = _numbered(
            chosen[chosen < num_known], new[ids[new].argsort()]
        )
        rest = np.setdiff1d(places, by_number)
        rest = rest[ids[rest].argsort()]
        place_of = np.full(len(ids), -1)
        place_of[np.append(by_number, rest)] = np.arange(
            len(by_number) + len(rest)
        )
        order = np.lexsort((place_of[places], days))
        return ids[by_number], IdUses(
            day,
            last[by_number].astype(np.int32),
            ids[rest],
            place_of[places][order].astype(np.int32),
            days[order].astype(np.int32),
            counts[order].astype(np.int64),
        )

    def _within_rows(
        self,
        chosen: npt.NDArray[np.intp],
        ids: pd.Index,
        last: npt.NDArray[np.int64],
        totals: npt.NDArray[np.int64],
        is_known: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.intp]:
        """Those of the chosen places that there are rows for, ascending."""
        room = len(chosen) if self.max_rows is None else self.max_rows - 1
        if len(chosen) <= room:
            return chosen
        rank = np.empty(len(chosen), np.intp)
        rank[ids[chosen].argsort()] = np.arange(len(chosen))
        first, second = last[chosen], totals[chosen]
        if self.evict_by == FREQUENT:
            first, second = second, first
        best = np.lexsort((rank, ~is_known[chosen], -second, -first))[:room]
        return np.sort(chosen[best])


def _numbered(
    known: npt.NDArray[np.intp], new: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Puts the places of ids in the order of their numbers.

    Args:
        known: Places of ids that had a number, which is their place.
        new: Places of the others.
    """
    by_number = np.full(len(known) + len(new), -1)
    stay = known < len(by_number)
    by_number[known[stay]] = known[stay]
    by_number[by_number < 0] = np.append(known[~stay], new)
    return by_number


def _in_one_form(*indexes: pd.Index) -> list[pd.Index]:
    """Makes all ids strings as soon as some are."""
    integers = [
        pd.api.types.is_integer_dtype(index) for index in indexes if len(index)
    ]
    if not integers:
        return [*indexes]
    if all(integers):
        return [index.astype("int64") for index in indexes]
    return [pd.Index([*map(str, index)], dtype=object) for index in indexes]
