"""What `--help` shows at 80 columns."""

import inspect
import re
from dataclasses import fields

import pytest

from recsys import TrainConfig
from recsys.cli import app
from recsys.cli import run
from recsys.commands.options import GROUPS
from recsys.data.prepare import DATA_SETS

COMMANDS = {
    command.callback.__name__.replace("_", "-"): command.callback
    for command in app.registered_commands
}


def shown(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert run([*words, "--help"]) == 0
    text = capfd.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    told = text
    for usual in ("[ARGS]...", "{folders}...", "folders...", "2, ..."):
        told = told.replace(usual, "")
    assert "..." not in told
    return text


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_name_is_whole(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = shown(capfd, command)
    listed = re.findall(r"^ {2}(--[a-z0-9-]+)(?: |$)", text, re.M)
    assert len(listed) == len(set(listed))
    for name, parameter in inspect.signature(
        COMMANDS[command]
    ).parameters.items():
        if name == "warm_start":
            continue
        kind = str(parameter.annotation)
        flag = "--" + name.replace("_", "-")
        if "ArgumentInfo" in kind:
            assert f"  {name}" in text
        elif name in ("sparse_only", "gate_options", "task_options"):
            assert flag.removesuffix("s") in text
        else:
            assert flag in listed or flag.removesuffix("s") in listed, flag


def test_the_commands_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(capfd)
    for command in COMMANDS:
        assert f"\n  {command} " in text


@pytest.mark.parametrize("command", ["train", "tune"])
def test_options_come_in_groups(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = shown(capfd, command)
    titles = [f"\n{title}:\n" for title in dict.fromkeys(GROUPS.values())]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert GROUPS.keys() == {field.name for field in fields(TrainConfig)}


@pytest.mark.parametrize("name", DATA_SETS)
def test_prepare_tells_the_options_of_a_data_set(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = shown(capfd, "prepare", name)
    told = text[text.index(f"Options of {name}, as --option NAME=VALUE:") :]
    own = list(inspect.signature(DATA_SETS[name]).parameters)[3:]
    assert re.findall(r"^ {2}([a-z_]+) {2,}\S", told, re.M) == own
    assert own or "None." in told


def test_prepare_tells_the_data_sets(capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(capfd, "prepare")
    listed = text[text.index("Data sets:") :]
    assert all(name in listed for name in DATA_SETS)
    assert "recsys prepare NAME --help" in listed


def test_a_wide_terminal_has_longer_lines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["train", "--help"]) == 0
    widest = max(map(len, capfd.readouterr().out.splitlines()))
    assert 100 < widest <= 120
