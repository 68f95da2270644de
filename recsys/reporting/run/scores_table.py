from collections.abc import Mapping

from recsys.reporting.section import Table

_COLUMNS = ("validation", "test", "constant")


def scores_table(scores: Mapping[str, Mapping[str, str]]) -> Table:
    """Returns a table of the metrics of a run, one a row.

    Args:
        scores: Those of `overview`.
    """
    columns = [
        column
        for column in _COLUMNS
        if any(column in values for values in scores.values())
    ]
    rows = [
        [name, *(values.get(column, "") for column in columns)]
        for name, values in scores.items()
    ]
    return Table("Metrics", ["metric", *columns], rows)
