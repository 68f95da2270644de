"""Rows of sequence towers."""

from typing import Any


def tower(**fields: Any) -> dict[str, Any]:
    """Returns the fields of a sequence tower without a ranker behind it."""
    return {
        "retrieval": True,
        "retrieval_exclude_seen": True,
        "tower": "transformer",
        "ranker": False,
        **fields,
    }
