from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of texts as Markdown.

    Args:
        header: The titles of the columns.
        rows: The cells, row by row.

    Example:
    >>> print(markdown_table(["gate", "loss"], [["comet", "0.4"]]))
    | gate | loss |
    |---|---|
    | comet | 0.4 |
    """
    lines = [_line(header), "|" + "---|" * len(header), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
