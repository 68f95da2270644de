"""The results of a comparison: a table, and a sentence for each pair."""

from collections.abc import Iterator
from collections.abc import Mapping

import pandas as pd

from recsys.errors.shown import printable
from recsys.reporting.markdown import markdown_table
from recsys.reporting.markdown import markdown_text
from recsys.reporting.statistics import mean_and_error
from recsys.reporting.statistics import p_value
from recsys.reporting.statistics import paired_differences
from recsys.reporting.terminal_table import print_table

_FEWEST = 3  # Seeds, for a standard error that says something.


def comparison_table(
    results: pd.DataFrame, against: Mapping[str, str] | None = None
) -> str:
    """Returns the means over the seeds as Markdown, a table per setting.

    Numbers are means; after ± stands the standard error. The loss is times
    100, as its column says. Where a model is tested against another one, the
    difference is the mean of its loss minus the other's, over the seeds that
    both have, and p is that of Welch's one-sided t-test of its loss being
    lower, which does not pair them.

    Args:
        results: A row per run: "setting", "model", "seed", "loss", and any
            other numbers.
        against: By model, the one that its loss is tested against.

    Example:
    >>> results = pd.DataFrame(
    ...     {"setting": "", "model": ["a", "a"], "seed": [0, 1]}
    ...     | {"loss": [0.41, 0.43]}
    ... )
    >>> print(comparison_table(results))
    | model | seeds | loss x 100 |
    |---|---|---|
    | a | 2 | 42.00 ± 1.00 |
    """
    parts = []
    for setting, header, lines in _tables(results, against):
        title = [f"### {markdown_text(setting)}", ""] if setting else []
        parts.append("\n".join([*title, markdown_table(header, lines)]))
    return "\n\n".join(parts)


def print_comparison(
    results: pd.DataFrame, against: Mapping[str, str] | None = None
) -> None:
    """Prints what `comparison_table` returns as tables of the terminal.

    Args:
        results: As for `comparison_table`.
        against: As for `comparison_table`.
    """
    for setting, header, lines in _tables(results, against):
        if setting:
            print(printable(setting))
        print_table(
            header, [[printable(cell) for cell in line] for line in lines]
        )


def _tables(
    results: pd.DataFrame, against: Mapping[str, str] | None
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Each setting with the header and the cells of its table."""
    for setting, rows in results.groupby("setting", sort=False):
        yield str(setting or ""), *_table(rows, against or {})


def _table(
    rows: pd.DataFrame, against: Mapping[str, str]
) -> tuple[list[str], list[list[str]]]:
    numbers = [
        column
        for column in rows.columns
        if column not in ("setting", "model", "seed")
        # Where no model of this setting has searched for permutations.
        and not (column == "permutation distance" and rows[column].isna().all())
    ]
    titles = ["loss x 100" if name == "loss" else name for name in numbers]
    tested = ["difference x 100", "p"] if against else []
    header = ["model", "seeds", *titles, *tested]
    lines = []
    for model, runs in rows.groupby("model", sort=False):
        cells = [str(model), str(len(runs))]
        cells += [_mean(column, runs[column]) for column in numbers]
        if against:
            rival = rows[rows["model"] == against.get(str(model))]
            differences = paired_differences(runs, rival)
            cells.append(mean_and_error(100 * differences, 3))
            p = p_value(runs["loss"], rival["loss"])
            cells.append("" if p is None else f"{p:.2g}")
        lines.append(cells)
    return header, lines


def _mean(column: str, values: pd.Series) -> str:
    values = values.dropna()
    if values.empty:
        return ""
    if column == "loss":
        return mean_and_error(100 * values, 2)
    return f"{values.mean():.{_digits(column)}f}"


def _digits(column: str) -> int:
    if "epoch" in column or column == "seconds":
        return 0 if column == "epochs" else 1
    short = ("experts", "distance", "%")
    return 2 if any(part in column for part in short) else 4


def verdicts(results: pd.DataFrame, against: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each pair of models that was compared.

    A model is ahead where the mean of its losses minus the other's, seed by
    seed, is more than two standard errors below 0.

    Args:
        results: A row per run: "setting", "model", "seed" and "loss".
        against: By model, the one that its loss is compared with.

    Example:
    >>> losses = {"a": [0.40, 0.41, 0.42], "b": [0.42, 0.44, 0.45]}
    >>> results = pd.DataFrame(
    ...     [
    ...         {"setting": "", "model": model, "seed": seed, "loss": loss}
    ...         for model in losses
    ...         for seed, loss in enumerate(losses[model])
    ...     ]
    ... )
    >>> verdicts(results, {"a": "b"})
    ['a is ahead of b: loss x 100 -2.667 ± 0.333, 3 seeds.']
    """
    sentences = []
    for setting, rows in results.groupby("setting", sort=False):
        where = f"{setting!s}: " if setting else ""
        for model, rival in against.items():
            differences = paired_differences(
                rows[rows["model"] == model], rows[rows["model"] == rival]
            )
            if len(differences):
                sentences.append(where + _verdict(model, rival, differences))
    return sentences


def _verdict(model: str, rival: str, differences: "pd.Series[float]") -> str:
    count = len(differences)
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    figures = f"loss x 100 {mean_and_error(100 * differences, 3)}, {seeds}."
    if count < _FEWEST:
        return f"{model} against {rival}, too few seeds for an order: {figures}"
    mean = differences.mean()
    bound = 2 * differences.std(ddof=1) / count**0.5
    relation = "level with"
    if abs(mean) > bound:
        relation = "ahead of" if mean < 0 else "behind"
    return f"{model} is {relation} {rival}: {figures}"
