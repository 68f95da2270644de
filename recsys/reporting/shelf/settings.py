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


_OTHER_TOWERS: dict[str, JsonObject] = {
    "HSTU": {"tower": "hstu"},
    "transformer of sparse experts": {"tower_gate": "top-k"},
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
    retrieval_label: str = "all", ranker: bool = True
) -> tuple[Setting, ...]:
    """Returns what a user gets without further options, and without a refit.

    Args:
        retrieval_label: Which ratings count.
        ranker: Whether the data have tasks to rank by; then, the defaults
            refit the towers alone, and another row is with a refit of all.
    """
    fields: JsonObject = {
        "retrieval": True,
        "retrieval_label": retrieval_label,
    }
    if not ranker:
        return _with_and_without_refit("two towers", fields)
    name = "two towers and ranker"
    return (
        *_with_and_without_refit(name, fields),
        Setting(f"{name}, refit", "train", {**fields, "refit": True}, seeds=3),
    )


def default_tower_rows(**protocol: object) -> tuple[Setting, ...]:
    """Returns what a user gets on a log in order, and that without a refit.

    Beside it, the towers that an option asks for, by defaults otherwise.

    Args:
        **protocol: Fields that are a part of the benchmark's protocol.
    """
    fields: JsonObject = {"retrieval": True, **protocol}
    return (
        *_with_and_without_refit("transformer, defaults", fields),
        *(
            Setting(
                f"{name}, defaults", "train", {**fields, **options}, seeds=3
            )
            for name, options in _OTHER_TOWERS.items()
        ),
    )


def _with_and_without_refit(
    name: str, fields: JsonObject
) -> tuple[Setting, ...]:
    """A training by default, which has a refit, and one that has none."""
    without = {**fields, "refit": False}
    return (
        Setting(name, "train", fields, seeds=3),
        Setting(f"{name}, no refit", "train", without, seeds=3),
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
