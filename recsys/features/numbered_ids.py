from typing import TYPE_CHECKING

import pandas as pd

from recsys.features.id_turnover import IdTurnover
from recsys.features.id_uses import IdUses
from recsys.features.value_counts import ValueCounts

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary


def known_ids(
    counts: ValueCounts, min_count: int, before: "Vocabulary | None" = None
) -> "Vocabulary":
    """Returns the vocabulary of the ids that are often enough there.

    Args:
        counts: How often each id is there.
        min_count: How often it must be.
        before: The vocabulary that these ids are added to, whose own ids keep
            their numbers; none unless given.
    """
    from recsys.features.vocabulary import Vocabulary

    known = [part.index[part >= min_count] for part in counts.sorted()]
    ids = known[0].append(known[1:]) if known else pd.Index([])
    return Vocabulary.of_sorted(ids) if before is None else before.grown(ids)


def ids_after_day(
    counts: ValueCounts,
    min_count: int,
    before: "Vocabulary | None",
    turnover: IdTurnover,
) -> "Vocabulary":
    """Returns the vocabulary after a further day, with the uses of its ids.

    Args:
        counts: How often each id is there on that day; these are held in
            memory, those of ids that are too rare to enter among them.
        min_count: How often it must be within the window to enter.
        before: The vocabulary before that day; `None` on the first. Without
            uses, its ids count as used on the day before, and never before.
        turnover: What says which ids enter and leave.
    """
    from recsys.features.vocabulary import Vocabulary

    known = pd.Index([]) if before is None else before.values
    uses = None if before is None else before.uses
    if uses is None:
        uses = IdUses.uncounted(len(known))
    today = pd.concat([pd.Series([], dtype="int64"), *counts.sorted()])
    ids, uses = turnover.after_day(known, uses, today, min_count)
    vocabulary = Vocabulary.of_sorted(ids)
    vocabulary.uses = uses
    return vocabulary
