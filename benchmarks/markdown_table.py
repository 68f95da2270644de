"""A table of results, ready for a README."""

import pandas as pd


def markdown_table(frame: pd.DataFrame) -> str:
    """Writes a table as Markdown; numbers with four digits, gaps as -."""
    lines = [list(frame.columns), ["---"] * len(frame.columns)]
    for row in frame.itertuples(index=False):
        lines.append([_cell(value) for value in row])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
