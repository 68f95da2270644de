from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy.stats import ttest_ind


def comparison_table(
    results: pd.DataFrame, against: Mapping[str, str] | None = None
) -> str:
    """Returns the means over the seeds as Markdown, a table a setting.

    Numbers are means; after ± stands the standard error. Losses are times
    100. Where a model is tested against another one, p is that of Welch's
    one-sided t-test of its loss being lower.

    Args:
        results: A row a run: "setting", "model", "seed", "loss", and any
            other numbers.
        against: By model, the one that its loss is tested against.

    Example:
    >>> results = pd.DataFrame(
    ...     {"setting": "", "model": ["a", "a"], "seed": [0, 1]}
    ...     | {"loss": [0.41, 0.43]}
    ... )
    >>> print(comparison_table(results))
    | model | seeds | loss |
    |---|---|---|
    | a | 2 | 42.00 ± 1.00 |
    """
    parts = []
    for setting, rows in results.groupby("setting", sort=False):
        title = [f"### {setting!s}", ""] if setting else []
        parts.append("\n".join([*title, *_lines(rows, against or {})]))
    return "\n\n".join(parts)


def _lines(rows: pd.DataFrame, against: Mapping[str, str]) -> list[str]:
    numbers = [
        column
        for column in rows.columns
        if column not in ("setting", "model", "seed")
    ]
    header = ["model", "seeds", *numbers, *(["p"] if against else [])]
    lines = [_line(header), _line(["---"] * len(header)).replace(" ", "")]
    for model, runs in rows.groupby("model", sort=False):
        cells = [str(model), str(len(runs))]
        cells += [_mean(column, runs[column]) for column in numbers]
        if against:
            other = rows[rows["model"] == against.get(str(model))]
            cells.append(_p_value(runs["loss"], other["loss"]))
        lines.append(_line(cells))
    return lines


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _mean(column: str, values: Any) -> str:
    values = values.dropna()
    if values.empty:
        return ""
    scale, digits = (100, 2) if column == "loss" else (1, _digits(column))
    text = f"{scale * values.mean():.{digits}f}"
    if column == "loss" and len(values) > 1:
        text += f" ± {scale * values.sem():.{digits}f}"
    return text


def _digits(column: str) -> int:
    if "epoch" in column:
        return 0 if column == "epochs" else 1
    return 2 if "experts" in column else 4


def _p_value(losses: Any, others: Any) -> str:
    if len(losses) < 2 or len(others) < 2:
        return ""
    test = ttest_ind(losses, others, equal_var=False, alternative="less")
    return f"{test.pvalue:.2g}"
