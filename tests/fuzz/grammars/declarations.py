"""Object forms of `dataset.json`, compared with a table of what there is."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from recsys.columns.kind import declarations
from recsys.data.schema import Schema
from recsys.errors import FileError
from tests.fuzz import values
from tests.fuzz.grammars.outcome import outcome

_Check = Callable[[Any], bool]


def _whole(least: int, most: int) -> _Check:
    return lambda value: type(value) is int and least <= value <= most


def _number(least: float, most: float) -> _Check:
    return lambda value: type(value) in (int, float) and least <= value <= most


def _one_of(*choices: Any) -> _Check:
    return lambda value: any(
        type(value) is type(one) and value == one for one in choices
    )


def _borders(value: Any) -> bool:
    is_list = isinstance(value, list) and 1 <= len(value) <= 2**20
    return (
        is_list
        and all(type(one) in (int, float) and abs(one) < 1e308 for one in value)
        and all(a < b for a, b in pairwise(value))
    )


_WIDTH, _COUNT = _whole(1, 2**20), _whole(1, 2**53)
_BOOLEAN = _one_of(True, False)
_NONE = _one_of(None)


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


# By kind: its options, and those that it must have.
_FEATURES: dict[str, tuple[dict[str, _Check], set[str]]] = {
    "id": ({"min_count": _COUNT, "dim": _or_none(_WIDTH)}, set()),
    "hash": (
        {"buckets": _whole(1, 2**31 - 2), "dim": _or_none(_WIDTH)},
        {"buckets"},
    ),
    "ids": (
        {
            "length": _or_none(_WIDTH),
            "pooling": _one_of("max", "mean", "sum"),
            "weighted": _BOOLEAN,
            "min_count": _or_none(_COUNT),
            "dim": _or_none(_WIDTH),
            "of": _NONE,
        },
        set(),
    ),
    "sequence": (
        {
            "length": _WIDTH,
            "pooling": _one_of("max", "mean", "sum"),
            "min_count": _or_none(_COUNT),
            "dim": _or_none(_WIDTH),
            "of": _NONE,
            "query": _NONE,
        },
        set(),
    ),
    "number": (
        {
            "transform": _one_of("log1p", None),
            "indicator": _BOOLEAN,
            "max_buckets": _whole(0, 2**20),
            "dim": _WIDTH,
        },
        set(),
    ),
    "bucket": (
        {
            "quantiles": _or_none(_whole(2, 2**20)),
            "borders": _or_none(_borders),
            "dim": _or_none(_WIDTH),
        },
        set(),
    ),
    "vector": ({"size": _WIDTH}, {"size"}),
}
_TASKS: dict[str, tuple[dict[str, _Check], set[str]]] = {
    "binary": (
        {
            "after": _NONE,
            "pos_weight": _number(5e-324, 1e9),
            "focal": _number(0, 1e3),
        },
        set(),
    ),
    "regression": ({}, set()),
    "multiclass": ({}, set()),
}
_GOOD: list[Any] = [
    *(1, 2, 5, 1024, 2**20, 2**53, 0.5, 2.0, True, False, None),
    *("mean", "sum", "max", "log1p", [0.0], [0.5, 1.0], [2, 7.5]),
]
_EDGES: list[Any] = [
    *(0, -1, 2**20 + 1, 2**31 - 2, 2**31, 2**53 + 1, 10**9, 10**400),
    *(1e9, 1e10, 1e3, 1001.0, -0.0, 5e-324, 1.0, "1", [2.0, 1.0], []),
]


def check_declaration(random: Random, folder: Path) -> tuple[str, str | None]:
    """A feature and a task: taken as the table says, and kept as they are."""
    feature = _drawn(_FEATURES, random)
    task = _drawn(_TASKS, random)
    content = {
        "name": "fuzz",
        "features": {"user": "id", "x": feature},
        "tasks": {"y": task},
    }
    text = json.dumps(content)
    shown = f"declarations {text[:300]}"
    schema, error, problem = outcome(
        lambda: Schema.from_json(text, folder / "dataset.json"), FileError
    )
    if problem:
        return shown, problem
    valid = _is_valid(feature, _FEATURES) and _is_valid(task, _TASKS)
    if error is not None:
        problem = f"what is declared rightly is refused: {error}"
        return shown, problem if valid else None
    if not valid:
        return shown, "what is declared wrongly is taken"
    return shown, _difference(schema, feature, task)


def _difference(schema: Schema, feature: Any, task: Any) -> str | None:
    """What is kept is what was given, and is written as it was read."""
    for given, kind in (
        (feature, schema.features["x"]),
        (task, schema.tasks["y"]),
    ):
        options = given if isinstance(given, dict) else {"type": given}
        for name, value in options.items():
            if getattr(kind, name) != value:
                return f"{name}={value} has become {getattr(kind, name)}"
    again = Schema.from_json(schema.to_json(), "again")
    for ours, theirs in (
        (schema.features, again.features),
        (schema.tasks, again.tasks),
    ):
        if declarations(ours) != declarations(theirs):
            return "what is written is not what was read"
    return None


def _drawn(
    kinds: dict[str, tuple[dict[str, _Check], set[str]]], random: Random
) -> Any:
    name = random.choice(list(kinds))
    if random.random() < 0.1:
        return random.choice((name, name.upper(), values.value(random)))
    options, needed = kinds[name]
    given: dict[str, Any] = {"type": name}
    for option, check in options.items():
        if option in needed or random.random() < 0.5:
            good = [one for one in _GOOD if check(one)]
            given[option] = random.choice(good)
    if random.random() < 0.5:
        every = [option for one, _ in kinds.values() for option in one]
        key = random.choice([*every, *options, "type", values.text(random)])
        pool = random.choice((_GOOD, _EDGES, _EDGES, values.VALUES))
        given[key] = random.choice(pool)
    if random.random() < 0.1:
        del given[random.choice(list(given))]
    return json.loads(json.dumps(given))


def _is_valid(
    given: Any, kinds: dict[str, tuple[dict[str, _Check], set[str]]]
) -> bool:
    options = {"type": given} if isinstance(given, str) else given
    if not isinstance(options, dict):
        return False
    name = options.get("type")
    if not isinstance(name, str) or name not in kinds:
        return False
    checks, needed = kinds[name]
    others = {key: one for key, one in options.items() if key != "type"}
    if not needed <= others.keys() <= checks.keys():
        return False
    if not all(checks[key](one) for key, one in others.items()):
        return False
    if others.get("weighted") and others.get("pooling") == "max":
        return False
    both = (others.get("quantiles"), others.get("borders"))
    return None in both
