"""Runs "From logs to service" of `docs/get_started.md`.

The data have the form of MovieLens.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.recsys.page_commands import run_commands

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="starts processes of its own; once is enough",
    ),
]

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"## From logs to service\n(.*?)\n## ", re.DOTALL)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a shell does not have here, and where curl leaves its answers.
PRELUDE = """
set -e
recsys() {{ {python} -m recsys "$@"; }}
curl() {{ command curl -f --output "$(basename "${{@: -1}}").json" "$@"; }}
"""


def commands() -> list[str]:
    """The commands, with those that prepare and train on MovieLens-1M."""
    text = (ROOT / "docs" / "get_started.md").read_text(encoding="utf-8")
    found = SECTION.search(text)
    assert found
    first, movielens = (lines(one) for one in BLOCK.findall(found[1]))
    assert first[0].startswith("pip install")
    assert first[1].startswith("recsys train --data synthetic --retrieval")
    return [*movielens, *first[2:]]


def lines(block: str) -> list[str]:
    joined = block.replace("\\\n", " ").splitlines()
    return [line for line in joined if line and not line.startswith("#")]


def replaced(script: str, old: str, new: str) -> str:
    assert old in script
    return script.replace(old, new)


def free_ports() -> list[str]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return [str(each.getsockname()[1]) for each in (one, other)]


def write_movielens(folder: Path) -> None:
    """Users 1 to 60 have rated a third of the movies 780 to 839."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    movies = range(780, 840)
    rated = [
        f"{user}::{movie}::{1 + (user + movie) % 5}::{978300000 + movie}\n"
        for user in range(1, 61)
        for movie in sorted(rng.choice(movies, 20, replace=False))
    ]
    titles = [f"{movie}::Film {movie} (2001)::Drama\n" for movie in movies]
    (folder / "ratings.dat").write_text("".join(rated))
    (folder / "movies.dat").write_text("".join(titles))


def run_in_shell(script: str, folder: Path) -> None:
    """Servers are ended with the shell."""
    log = folder / "shell.txt"
    with log.open("w") as printed:
        shell = subprocess.Popen(
            ["bash", "-c", PRELUDE.format(python=sys.executable) + script],
            cwd=folder,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = shell.wait(900)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert status == 0, log.read_text()


def answer(folder: Path, model: str) -> list[dict[str, Any]]:
    file = folder / f"{model}:predict.json"
    predictions: list[dict[str, Any]] = json.loads(file.read_text())[
        "predictions"
    ]
    return predictions


def test_the_section_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quick_python: Path | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_movielens(tmp_path / "ml-1m")
    script = "\n".join(commands())
    script = replaced(script, "--epochs 2", "--epochs 1")
    for port, free in zip(("8501", "8502"), free_ports(), strict=True):
        script = replaced(script, port, free)
    run_commands(
        script, lambda part: run_in_shell(part, tmp_path), quick_python
    )
    printed = capsys.readouterr().out
    best = re.findall(r"^ +\d+ +(\d+) +Film \1 \(2001\) ", printed, re.M)
    assert len(set(best)) == 10
    (ranked,) = answer(tmp_path, "ranker")
    assert ranked.keys() == {"watch", "rating"}
    assert 0 < ranked["watch"] < 1
    (found,) = answer(tmp_path, "items")
    assert found.keys() == {"item", "score", "watch", "rating"}
    assert len(set(found["item"]) & set(range(780, 840)) - {803}) == 10
    np.testing.assert_allclose(
        found["score"],
        np.power(found["watch"], 0.7) * found["rating"],
        rtol=1e-4,
    )
    assert found["score"] == sorted(found["score"], reverse=True)
    models = {
        str(file.relative_to(tmp_path / "serving"))
        for file in (tmp_path / "serving").glob("*/*/*odel.*")
    }
    assert models == {
        "ranker/1/saved_model.pb",
        "items/1/saved_model.pb",
        "onnx/1/model.onnx",
    }
