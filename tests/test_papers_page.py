"""Keeps the pages of the papers true: lines, commands, links, figures."""

import argparse
import inspect
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from recsys.cli import app
from recsys.commands.options import given_fields
from recsys.commands.options import named_values
from recsys.config.train_config import TrainConfig
from recsys.data import Schema
from recsys.data.prepare import DATA_SETS
from recsys.reporting.comparison import Comparison
from recsys.training.resolve_config import check_config
from recsys.tuning.published_space import published_space

pytestmark = pytest.mark.once("torch")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (DOCS / "papers.md", *sorted(DOCS.glob("papers/*.md")))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)

Command = tuple[str, ...]
Row = dict[str, str]

# Counted in the papers, supplements included.
PUBLISHED = {
    "COMET": [
        *(f"Table {n}" for n in (*range(1, 8), "S1", "S2")),
        *(f"Figure {n}" for n in range(1, 5)),
    ],
    "DSelect-k": [
        *(f"Table {n}" for n in (1, 2, 3, "C.4", "C.5")),
        *(f"Figure {n}" for n in (1, 2, 3, "B.4")),
        *(f"Figure C.{n}" for n in range(5, 9)),
    ],
    "MOESART": [
        *(f"Table {n}" for n in (1, 2)),
        *(f"Table S{n}" for n in range(1, 7)),
        *(f"Figure {n}" for n in (*range(1, 6), "S1", "S2")),
    ],
    "Expert Choice": [
        f"{kind} {n}" for kind in ("Table", "Figure") for n in range(1, 5)
    ],
    "Overlapping experts": [f"Figure {n}" for n in range(1, 35)],
}
GATES_OF_THE_TABLES = {"SMoE (`switch`)": "Switch"}


def section(heading: str) -> str:
    """What stands below a heading, up to the next one."""
    lines = iter(TEXT.splitlines())
    for line in lines:
        if line.lstrip("#").strip() == heading and line.startswith("#"):
            break
    body = []
    for line in lines:
        if line.startswith("#"):
            break
        body.append(line)
    assert body, f"no section {heading!r}"
    return "\n".join(body)


def tables(text: str) -> Iterator[list[Row]]:
    """The tables of a text, each row with its cells by column."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in block.splitlines()
        )
        yield [dict(zip(header, row, strict=True)) for row in rows]


def named(what: str) -> Iterator[str]:
    """The tables or figures that a line is about.

    "Figures 5 to 7: more" is about "Figure 5", "Figure 6" and "Figure 7".
    """
    label = r"([A-Z]?\.?)(\d+)"
    match = re.match(rf"(Table|Figure)s? {label}(?: (and|to) {label})?", what)
    assert match, what
    kind, letter, first, joined, _, last = match.groups()
    for number in range(int(first), int(last if joined else first) + 1):
        yield f"{kind} {letter}{number}"


def unrolled(block: str) -> str:
    """A block of shell with each loop's lines once for each of its words."""

    def repeat(loop: re.Match[str]) -> str:
        name, words, body = loop.groups()
        return "".join(body.replace(f"${name}", word) for word in words.split())

    return re.sub(
        r"^for (\w+) in (.*?); do\n(.*?)^done\n",
        repeat,
        block,
        flags=re.M | re.S,
    )


def find_commands() -> list[Command]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S)
    lines = [
        line
        for block in blocks
        for line in unrolled(block.replace("\\\n", " ")).splitlines()
    ]
    words = [tuple(shlex.split(line, comments=True)) for line in lines]
    return list(dict.fromkeys(command for command in words if command))


COMMANDS = find_commands()
GROUP = typer.main.get_command(app)


def commands_of(program: str) -> list[Command]:
    return [command for command in COMMANDS if program in command[:3]]


def parse(command: Command) -> dict[str, Any]:
    """What the command line makes of the words, without running them."""
    _, name, *arguments = command
    context = GROUP.commands[name].make_context(name, arguments)
    # Typer calls a command with `None` for a list that is not given.
    return {
        name: None if value == () else value
        for name, value in context.params.items()
    }


def schema_of(folder: str) -> Schema:
    """The schema of a data folder of the page."""
    name = Path(folder).name
    if name.startswith(("movielens", "books", "jester")):
        features = {"user": "id", "item": "id"}
        tasks = {"watch": "binary", "rating": "regression"}
        return Schema(name, features, tasks)
    return Schema(name, {"image": "image"}, {"label": "multiclass"})


@pytest.mark.parametrize("paper", PUBLISHED)
def test_every_table_and_figure_has_a_line(paper: str) -> None:
    (rows,) = (rows for rows in tables(section(paper)) if "What" in rows[0])
    for row in rows:
        assert all(row[column] for column in ("Command", "Here", "Published"))
    found = {name for row in rows for name in named(row["What"])}
    assert found == set(PUBLISHED[paper])


def test_every_command_is_of_a_known_program() -> None:
    for command in COMMANDS:
        words = [word for word in command if "KERAS_BACKEND=" not in word]
        assert words[0] in ("recsys", "python", "pytest"), command
        for word in words:
            if re.match(r"(benchmarks|docs|notebooks|tests)/", word):
                assert (ROOT / word).is_file(), word


@pytest.mark.parametrize("command", commands_of("prepare"), ids=" ".join)
def test_data_can_be_prepared(command: Command) -> None:
    given = parse(command)
    options = named_values("option", given["option"] or [], repeats=True)
    if given.get("subsample"):
        options["subsample"] = given["subsample"]
    parameters = inspect.signature(DATA_SETS[given["name"]]).parameters
    assert set(options) <= set(parameters)


@pytest.mark.parametrize(
    "command", commands_of("train") + commands_of("tune"), ids=" ".join
)
def test_fields_fit_the_data(command: Command) -> None:
    given = parse(command)
    fields = {
        name: value
        for name, value in given.items()
        if name in inspect.signature(TrainConfig).parameters
    }
    fields = given_fields(fields)
    config = TrainConfig.from_mapping(fields)
    schema = schema_of(config.data)
    check_config(config, schema)
    if paper := given.get("paper"):
        assert published_space(config.gate, schema.name, paper, fields)


@pytest.mark.parametrize("command", commands_of("compare"), ids=" ".join)
def test_comparisons_can_be_read(command: Command) -> None:
    given = parse(command)
    assert Comparison.read(ROOT / str(given["comparison"])).models


def test_what_is_read_is_written_by_another_command() -> None:
    parsed = [(command[1], parse(command)) for command in commands_of("recsys")]
    written = {str(given["out"]) for _, given in parsed}
    read = {str(given["data"]) for _, given in parsed if given.get("data")}
    for _, given in parsed:
        read |= {str(given[name]) for name in ("sweep", "run") if name in given}
        read |= set(map(str, given.get("folders", ())))
    assert read <= written


@pytest.mark.parametrize("command", commands_of("python"), ids=" ".join)
def test_scripts_take_their_arguments(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, *arguments = command[command.index("python") + 1 :]
    if script == "-m":
        module, *arguments = arguments
        script = module.replace(".", "/") + ".py"
    parse_args = argparse.ArgumentParser.parse_args

    def parse_only(
        parser: argparse.ArgumentParser, words: list[str] | None = None
    ) -> None:
        parse_args(parser, words)
        raise SystemExit("arguments are read")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.syspath_prepend((ROOT / script).parent)
    with pytest.raises(SystemExit, match="arguments are read"):
        runpy.run_path(str(ROOT / script), run_name="__main__")


@pytest.mark.parametrize("command", commands_of("pytest"), ids=" ".join)
def test_tests_are_there(command: Command) -> None:
    _, file, _, expression = command
    names = re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.M)
    for part in expression.split(" or "):
        assert any(part in name for name in names), part


def test_headings_of_the_report_are_its_own() -> None:
    source = "".join(
        file.read_text() for file in (ROOT / "recsys/reporting").glob("*.py")
    )
    titles = set(re.findall(r'Section\(\s*"([^"]+)"', source))
    named_here = set(
        re.findall(r"report(?:\]\([^)]*#report\))? \*([^*]+)\*", TEXT)
    )
    assert named_here
    assert named_here <= titles


def cells(kind: str) -> Iterator[str]:
    """The cells of all columns whose title begins with a word."""
    for rows in tables(TEXT):
        for row in rows:
            for title, cell in row.items():
                if title.startswith(kind):
                    yield cell


def test_what_came_out_stands_in_the_benchmarks() -> None:
    """A figure that is measured anew has to change in both places."""
    benchmarks = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    number = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
    measured = set(number.findall(benchmarks))
    ours = {
        value
        for cell in cells("Here")
        for value in number.findall(re.sub(r"\]\([^)]*\)", "", cell))
    }
    assert len(ours) > 50
    assert ours <= measured


@pytest.mark.parametrize("alpha", ["0.9", "0.1"])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("COMET, table 2", "Published: COMET"),
        ("MOESART, tables 1 and S4", "Published: MOESART"),
    ],
)
def test_published_losses_are_those_of_the_benchmarks(
    alpha: str, table: str, column: str
) -> None:
    file = ROOT / "benchmarks" / "published_losses.json"
    expected = json.loads(file.read_text())[f"alpha {alpha}"][table]
    text = section("MovieLens-1M, side by side")
    rows = next(tables(text.split(f" = {alpha}:\n")[1]))
    losses = {
        GATES_OF_THE_TABLES.get(row["gate"], row["gate"]): row[column]
        for row in rows
        if row[column]
    }
    assert {
        gate: float(text.partition(" ± ")[0]) for gate, text in losses.items()
    } == expected
