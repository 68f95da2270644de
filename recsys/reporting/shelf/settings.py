"""Settings that several benchmarks have: simple models, sequence towers."""

from recsys.files.json_files import JsonObject
from recsys.reporting.shelf.benchmark import Setting

_NAMES = {
    "popular": "popular",
    "ease": "EASE",
    "ials": "iALS",
    "item-knn": "item-knn",
    "mf": "softmax MF",
    "spectral": "spectral filter",
}


def baseline_rows(*models: str, **fields: object) -> tuple[Setting, ...]:
    """Returns rows of simple models.

    They are fitted on the training and the validation split in the end, as
    the figures that are published for such models are.

    Args:
        *models: Names of baselines.
        **fields: Further fields of `BaselineConfig`, for all of them.
    """
    return tuple(
        Setting(
            _NAMES[model],
            "baseline",
            {"model": model, "refit": True, **fields},
        )
        for model in models
    )


def two_tower_rows(
    retrieval_label: str = "all", name: str = "two towers and ranker"
) -> tuple[Setting, ...]:
    """Returns what a user gets without further options, and with a refit.

    Args:
        retrieval_label: Which ratings count.
        name: What the model is called.
    """
    fields: JsonObject = {
        "retrieval": True,
        "retrieval_label": retrieval_label,
    }
    return _default_and(name, fields, ", refit", refit=True)


def default_tower_rows(**protocol: object) -> tuple[Setting, ...]:
    """Returns what a user gets on a log in order, and that without a refit.

    Args:
        **protocol: Fields that are a part of the benchmark's protocol.
    """
    fields: JsonObject = {"retrieval": True, **protocol}
    name = "transformer, defaults"
    return _default_and(name, fields, ", no refit", refit=False)


def _default_and(
    name: str, fields: JsonObject, suffix: str, refit: bool
) -> tuple[Setting, ...]:
    """A training by default, and one with the other answer to `refit`."""
    return (
        Setting(name, "train", fields, seeds=3),
        Setting(
            f"{name}{suffix}", "train", {**fields, "refit": refit}, seeds=3
        ),
    )


def tower(**fields: object) -> JsonObject:
    """Returns the fields of a sequence tower without a ranker behind it."""
    return {
        "retrieval": True,
        "retrieval_exclude_seen": True,
        "tower": "transformer",
        "ranker": False,
        **fields,
    }
