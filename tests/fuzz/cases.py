"""One case: a file or an option is mutated, a command runs, and is judged."""

import contextlib
import re
import shutil
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import typer

from recsys import cli
from tests.fuzz import values
from tests.fuzz.corpus import PLACE
from tests.fuzz.corpus import TARGETS
from tests.fuzz.corpus import Target
from tests.fuzz.mutations import mutate

OPTION_SHARE = 0.1
_NO = 3  # The status of `promote` that is no error.
LONGEST = 10_000  # Letters of an error.
# Before the `=` of an option that is a pair.
_KEYS = (
    *("watch", "watch.focal", "watch.pos_weight", "gamma", "min_records"),
    *("scale", "height", "seed", "ids", "time", "split", "schema"),
)
# Words of Python and its libraries about themselves, not about a file.
RAW = re.compile(
    r"object is not|object has no|has no attribute|unhashable type|codec can't"
    r"|invalid literal|not subscriptable|positional argument"
    r"|unexpected keyword|could not convert|index out of range"
    r"|not supported between|must be str|Exceeds the limit|Error -\d"
    r"|NoneType|expected str, bytes|truth value of|too many values"
    r"|not enough values|<class '|\.py\b|Expecting value|out of bounds for"
)
CONTROL = re.compile(r"[^\S \n]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")


class Accepted(BaseException):
    """The command has read everything, and would begin to compute."""


@dataclass(frozen=True)
class Case:
    """What is run, and on what.

    Attributes:
        arguments: The words after `recsys`.
        file: What was mutated; `None` where it was an option.
    """

    arguments: list[str]
    file: Path | None


def make_case(seed: str, corpus: Path, folder: Path) -> Case:
    """Writes the files of a case.

    Args:
        seed: What every choice depends on.
        corpus: Folder that `corpus.build` has written.
        folder: Folder to write, which must not exist.
    """
    random = Random(seed)
    (target,) = random.choices(TARGETS, [target.weight for target in TARGETS])
    words = set_up(target, corpus, folder)
    if random.random() < OPTION_SHARE:
        return Case(_with_option(words, random), None)
    return Case(words, _mutate_file(target, folder, random))


def set_up(target: Target, corpus: Path, folder: Path) -> list[str]:
    """Copies what a target's command reads; returns the command's words."""
    shutil.copytree(corpus / target.tree, folder)
    for file in folder.rglob("*.json*"):
        text = file.read_text(encoding="utf-8").replace(PLACE, str(folder))
        file.write_text(text, encoding="utf-8")
    return [word.replace("{}", str(folder)) for word in target.command.split()]


def _mutate_file(target: Target, folder: Path, random: Random) -> Path:
    files = sorted(file for file in folder.glob(target.files) if file.is_file())
    file = random.choice(files)
    content = file.read_bytes()
    what = random.random()
    if what < 0.01:
        file.unlink()
    elif what < 0.02:
        file.unlink()
        file.mkdir()
    elif what < 0.03:
        file.unlink()
        file.symlink_to(file)
    elif what < 0.04:
        file.write_bytes(random.choice(files).read_bytes())
    else:
        file.write_bytes(mutate(file.name, content, random))
    return file


def _with_option(words: list[str], random: Random) -> list[str]:
    command: Any = typer.main.get_command(cli.app)
    options = [
        option.opts[-1]
        for option in command.commands[words[0]].params
        if option.param_type_name == "option" and option.opts[-1] != "--help"
    ]
    given = values.text(random).replace("\x00", "")
    name = random.choice(options)
    pairs = ("--option", "--gate-option", "--task-option", "--task-weight")
    if name in pairs:
        key = random.choice(_KEYS)
        given = random.choice((given, f"{key}={given}"))
    return [*words, name, given] if given else [*words, name]


def verdict(case: Case, status: Any, output: str, errors: str) -> str | None:
    """Returns what is wrong with the end of a command, if anything is.

    Args:
        case: The case.
        status: What the command returned, or the exception that it raised.
        output: What it has printed.
        errors: What it has printed to the standard error.
    """
    if isinstance(status, Accepted):
        status = 0
    if isinstance(status, BaseException):
        return "".join(traceback.format_exception(status))
    lines = errors.splitlines()
    found = [line for line in lines if line.startswith("error: ")]
    if CONTROL.search(output + errors):
        return "control characters in the output"
    if "Traceback" in errors or re.search(r"\.py:\d+: \w+Warning", errors):
        return "a traceback or a Python warning in the output"
    if status == _NO and case.arguments[0] == "promote":
        status = 0
    if status == 0:
        return "an error, but the status 0" if found else None
    if status not in (1, 2):
        return f"the status {status}"
    if len(found) != 1 or lines[-1] != found[0]:
        return "not exactly one line with an error, at the end"
    if len(found[0]) > LONGEST:
        return f"an error of {len(found[0]):,} letters"
    if RAW.search(found[0]):
        return "words of Python about itself"
    if case.file is not None and not _names(found[0], case.file):
        return "no name of the file"
    return None


def _names(line: str, file: Path) -> bool:
    """Whether a line names a file, or the folder that it is a part of.

    A folder of data that the file names, and that cannot be there, will do.
    """
    return (
        file.name in line
        or str(file.parent) in line
        or line.endswith(("no folder there", "File name too long"))
    )


@contextlib.contextmanager
def nothing_computed() -> Iterator[None]:
    """Lets commands end before they train, serve or start a process."""
    import subprocess
    from unittest.mock import patch

    import keras

    from recsys.reporting import embeddings
    from recsys.serving import server

    def accept(*_: Any, **__: Any) -> Any:
        raise Accepted

    with (
        patch.object(keras.Model, "fit", accept),
        patch.object(subprocess.Popen, "__init__", accept),
        # What a server does once a model is loaded.
        patch.object(server, "_keep_what_is_there", accept),
        patch.object(embeddings, "find_spec", lambda _: None),  # Slow.
    ):
        yield


def run_command(arguments: list[str], folder: Path) -> Any:
    """Runs `recsys` in a folder, but for what takes long.

    Returns:
        Its status, or the exception that escaped.
    """
    try:
        with contextlib.chdir(folder), nothing_computed():
            return cli.run(arguments)
    except (Exception, Accepted, SystemExit) as error:
        return error
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
