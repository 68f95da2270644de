from collections.abc import Callable
from collections.abc import Mapping
from time import perf_counter
from typing import Any
from typing import TypeVar

from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.terminal.progress import announce

Model = TypeVar("Model")
Trial = tuple[Options, float, float]


def search(
    options: Mapping[str, Option],
    given: Options,
    fit: Callable[[Options], Model],
    score: Callable[[Model], float],
) -> tuple[Model, dict[str, float], list[Trial]]:
    """Chooses the hyperparameters of a baseline, and fits it with them.

    One after the other: each value of an option's grid is tried with what has
    been chosen of the options before it, and the first value of those behind
    it. Nothing is tried where all options are given.

    Args:
        options: The hyperparameters by name.
        given: Those of them that are given.
        fit: Fits a model.
        score: Says how good a model is on the validation split, the larger
            the better.

    Returns:
        The model of the highest score, its options, and all that was tried
        with its score and the seconds that it took. Of equal scores, the first
        counts.

    Example:
    >>> options = {"a": Option((1.0, 2.0, 3.0), 1.0)}
    >>> model, chosen, trials = search(
    ...     options, {}, lambda values: values["a"], lambda a: -abs(a - 2)
    ... )
    >>> model, chosen, len(trials)
    (2.0, {'a': 2.0}, 3)
    """
    chosen = {
        name: given.get(name, option.first) for name, option in options.items()
    }
    trials: dict[tuple[float, ...], float] = {}
    seconds: dict[tuple[float, ...], float] = {}
    model: Model | None = None
    fitted: tuple[float, ...] = ()

    def tried(values: Options) -> float:
        nonlocal model, fitted
        key = tuple(values.values())
        if key not in trials:
            model = None  # Of large ones, memory has no room for two.
            start = perf_counter()
            model, fitted = fit(values), key
            trials[key] = score(model)
            seconds[key] = perf_counter() - start
            announce(f"{_shown(values)}: {trials[key]:.4f}")
        return trials[key]

    for name, option in options.items():
        if name not in given and len(option.grid) > 1:
            by_value = {
                value: tried({**chosen, name: value}) for value in option.grid
            }
            chosen[name] = max(by_value, key=lambda value: by_value[value])
    if not trials:
        tried(chosen)
    if model is None or fitted != tuple(chosen.values()):
        model = None
        model = fit(chosen)
    named: list[Trial] = [
        (dict(zip(options, key, strict=True)), value, seconds[key])
        for key, value in trials.items()
    ]
    return model, chosen, named


def _shown(values: Options) -> str:
    shown: Any = (f"{name} {value:g}" for name, value in values.items())
    return ", ".join(shown) or "no options"
