import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import keras
import pytest

from tests.fuzz import workers
from tests.fuzz.cases import Accepted
from tests.fuzz.cases import Case
from tests.fuzz.cases import run_command
from tests.fuzz.cases import set_up
from tests.fuzz.cases import verdict
from tests.fuzz.corpus import TARGETS
from tests.fuzz.corpus import Target

CASES = 150

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "torch",
        reason="files are read alike on every backend; PyTorch starts first",
    ),
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_is_mutated_is_valid_before(
    target: Target,
    built: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = set_up(target, built, tmp_path / "case")
    files = [*(tmp_path / "case").glob(target.files)]
    assert any(file.is_file() for file in files)
    status = run_command(words, tmp_path / "case")
    printed = capfd.readouterr()
    assert isinstance(status, Accepted) or status == 0, printed.err
    case = Case(words, files[0])
    assert verdict(case, status, printed.out, printed.err) is None


def test_every_command_ends_in_one_clear_error(
    built: Path, tmp_path: Path
) -> None:
    seeds = [f"0:{number}" for number in range(CASES)]
    results = [
        *workers.run_cases(seeds, built, tmp_path, workers=2, seconds=120)
    ]
    assert len(results) == CASES
    wrong = [
        f"python -m tests.fuzz --case {result.seed}: {result.problem}"
        for result in results
        if result.problem is not None
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("status", "output", "errors", "problem"),
    [
        (0, "done\n", "", None),
        (Accepted(), "", "", None),
        (1, "", "/c/a.csv is a subset\nerror: /c/a.csv: no rows\n", None),
        (1, "", "error: /c: no rows in train.csv\n", None),
        (1, "", "error: no rows\n", "no name of the file"),
        (1, "", "", "not exactly one line"),
        (1, "", "error: a.csv: 1\nerror: a.csv: 2\n", "not exactly one line"),
        (1, "", "error: a.csv\nmore\n", "not exactly one line"),
        (1, "", f"error: a.csv {'x' * 10**4}\n", "an error of 10,013 letters"),
        (2, "", "error: a.csv: 'int' object is not iterable\n", "Python"),
        (1, "", "error: a.csv: \x1b[31m\n", "control characters"),
        (0, "\x9b2J\n", "", "control characters"),
        (0, "", "error: a.csv: no rows\n", "the status 0"),
        (130, "", "", "the status 130"),
        (0, "", "a.py:7: UserWarning: b\n", "Python warning"),
        (KeyError("rating"), "", "", "KeyError: 'rating'"),
    ],
)
def test_verdicts(
    status: object, output: str, errors: str, problem: str | None
) -> None:
    found = verdict(Case([], Path("/c/a.csv")), status, output, errors)
    assert found == problem or (problem and problem in (found or "")), found


def test_a_case_that_hangs_or_crashes_is_one_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "serve", _serve)
    (tmp_path / "errors").write_text("free(): invalid pointer\n")
    worker = workers.Worker(tmp_path, tmp_path)
    problems = [
        worker.run(seed, seconds).problem
        for seed, seconds in (("crash", 60), ("hang", 1), ("0:0", 60))
    ]
    worker.stop()
    assert problems == [
        "a crash with the status -9\nfree(): invalid pointer\n",
        "no end within 1 seconds",
        None,
    ]


def _serve(pipe: Connection, corpus: Path, folder: Path) -> None:
    while True:
        seed = pipe.recv()
        if seed == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == "hang":
            time.sleep(600)
        pipe.send(workers.Result(seed, "", None))
