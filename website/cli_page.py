"""The page of the command line, from its parser."""

import re
from functools import cache
from typing import Any

import typer

from recsys.cli import app


@cache
def commands() -> dict[str, Any]:
    """Returns the commands of `recsys` by name, in the order of its help."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


@cache
def cli_page() -> str:
    """Returns the Markdown of the page."""
    found = commands()
    lines = [
        "# Command line",
        "",
        "`recsys COMMAND --help` shows the same in the terminal. An error is "
        "one line and an exit status that is not 0; `RECSYS_TRACEBACK=1` in "
        "the environment shows tracebacks. Each command is also a function "
        "of Python: [`recsys`](api/recsys/index.md).",
        "",
        "| command | what it does |",
        "|---|---|",
        *(
            f"| [`recsys {name}`](#recsys-{name}) | {_first_line(command)} |"
            for name, command in found.items()
        ),
    ]
    for name, command in found.items():
        lines += _section(name, command)
    return "\n".join(lines) + "\n"


def _section(name: str, command: Any) -> list[str]:
    context = command.context_class(command, info_name=f"recsys {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = ["", f"## `recsys {name}`", "", _escaped(command.help), ""]
    lines += ["```", f"recsys {name} {usage}", "```"]
    for title, records in _groups(command, context).items():
        lines += ["", f"**{title}**", "", "| option | |", "|---|---|"]
        lines += [f"| `{flag}` | {_cell(text)} |" for flag, text in records]
    return lines


def _groups(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Options by heading, each with its help, as `--help` groups them."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            kind = f"{parameter.param_type_name.capitalize()}s"
            title = getattr(parameter, "rich_help_panel", None) or kind
            groups.setdefault(title, []).append(record)
    return groups


def _first_line(command: Any) -> str:
    return _cell(command.get_short_help_str(limit=200))


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text of a terminal as Markdown."""
    return re.sub(r"([*_<\[\]])", r"\\\1", text)
