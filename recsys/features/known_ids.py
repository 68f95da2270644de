from typing import TYPE_CHECKING

import pandas as pd

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
