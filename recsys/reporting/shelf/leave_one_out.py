"""What benchmarks of sequences that leave one out have in common."""

from typing import Any

from recsys.reporting.shelf.benchmark import Setting

# A closed form, and what everybody gets: on training and validation split, as
# the figures that are published for such models.
BASELINES = (
    Setting("popular", "baseline", {"model": "popular", "refit": True}),
    Setting("EASE", "baseline", {"model": "ease", "refit": True}),
)


def tower(**fields: Any) -> dict[str, Any]:
    """Returns the fields of a sequence tower without a ranker behind it."""
    return {
        "retrieval": True,
        "retrieval_exclude_seen": True,
        "tower": "transformer",
        "ranker": False,
        **fields,
    }
