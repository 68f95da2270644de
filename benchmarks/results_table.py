"""A table of results, ready for a README."""

import pandas as pd

from recsys.reporting.markdown import markdown_table


def results_table(frame: pd.DataFrame) -> str:
    """Writes a table as Markdown; numbers with four digits, gaps as -."""
    rows = frame.itertuples(index=False)
    return markdown_table(
        list(frame.columns), [[_cell(value) for value in row] for row in rows]
    )


def _cell(value: object) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
