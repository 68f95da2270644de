"""Tables for a terminal: as they are where they fit, otherwise turned."""

from collections.abc import Sequence
from itertools import chain

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_UNBOUNDED = 10_000


def needed_width(table: Table) -> int:
    """Returns how many characters a line of a table has if nothing is cut."""
    return Console(width=_UNBOUNDED).measure(table).maximum


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table of texts, turned where it is wider than the terminal.

    Args:
        header: The titles of the columns; the first column says what a row is.
        rows: The cells, row by row.
    """
    table = _table(header)
    for row in rows:
        table.add_row(*map(escape, row))
    if needed_width(table) <= Console().width:
        Console().print(table)
    else:
        print_turned(header, [[row] for row in rows])


def print_turned(
    header: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]
) -> None:
    """Prints a table with its rows as columns, as many as fit side by side.

    Nothing is cut: where a single one does not fit, a terminal breaks lines.

    Args:
        header: What the lines are called, the first one above the others.
        groups: Columns that stay together where there is room for them: the
            cells of each, its title first, which may have several lines.
    """
    width = Console().width

    def fits(groups: Sequence[Sequence[Sequence[str]]]) -> bool:
        return needed_width(_turned(header, [*chain(*groups)])) <= width

    rest: list[Sequence[Sequence[str]]] = []
    for group in groups:
        rest += [group] if fits([group]) else [[column] for column in group]
    while rest:
        count = 1
        while count < len(rest) and fits(rest[: count + 1]):
            count += 1
        table = _turned(header, [*chain(*rest[:count])])
        rest = rest[count:]
        Console(width=max(width, needed_width(table))).print(table)


def _turned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    title, *names = header
    table = _table([title, *(row[0] for row in rows)])
    for number, name in enumerate(names, start=1):
        cells = [row[number] for row in rows]
        if any(cells):
            table.add_row(*map(escape, [name, *cells]))
    return table


def _table(header: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, collapse_padding=True)
    for number, title in enumerate(header):
        table.add_column(escape(title), justify="right" if number else "left")
    return table
