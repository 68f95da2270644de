"""Rows of sequence towers."""

from recsys.files.json_files import JsonObject


def tower(**fields: object) -> JsonObject:
    """Returns the fields of a sequence tower without a ranker behind it."""
    return {
        "retrieval": True,
        "retrieval_exclude_seen": True,
        "tower": "transformer",
        "ranker": False,
        **fields,
    }
