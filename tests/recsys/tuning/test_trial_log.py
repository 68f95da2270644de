import json
import threading
from pathlib import Path
from typing import Any

import pytest

from recsys.errors import FileError
from recsys.tuning.trial_log import TrialLog

RECORDS = [
    {"trial": trial, "status": "failed", "error": error}
    for trial, error in (("0", "é"), ("1", "no luck"))
]
LINES = """\
{"trial": "0", "status": "failed", "error": "é"}
{"trial": "1", "status": "failed", "error": "no luck"}
"""

METRICS = {"loss": 1, "tasks": {"a": {"loss": 1}}, "experts_per_example": None}
COMPLETED = {
    "trial": "2",
    "status": "completed",
    "hyperparameters": {},
    "config": {"data": "synthetic", "out": "run"},
    "validation": METRICS,
    "test": METRICS,
}


def test_a_line_each_in_the_order_of_arrival(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    assert log.read() == []
    for record in RECORDS:
        log.append(record)
    assert log.file.read_text(encoding="utf-8") == LINES
    assert log.read() == RECORDS
    assert log.find("1") == RECORDS[1]
    assert log.find("2") is None


@pytest.mark.parametrize("rest", ['{"trial": "2", "err', "{", "{}"])
def test_cut_off_line_counts_as_not_there(rest: str, tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.file.write_text(LINES + rest, encoding="utf-8")
    assert log.read() == RECORDS
    assert log.find("2") is None
    log.append(COMPLETED)
    text = log.file.read_text(encoding="utf-8")
    assert text == LINES + json.dumps(COMPLETED) + "\n"


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")

    def append(trial: int) -> None:
        log.append(RECORDS[0] | {"trial": str(trial), "text": "-" * 10_000})

    threads = [threading.Thread(target=append, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = log.read()
    assert sorted(record["trial"] for record in records) == list("01234567")
    assert all(len(record["text"]) == 10_000 for record in records)


def test_completed_trial(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.append(COMPLETED)
    assert log.read() == [COMPLETED]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing", ": expected JSON"),
        ("", ": expected JSON"),
        ("[]", ": expected an object"),
        ("{}", ": expected a value at trial"),
        ({"trial": "2"}, ": expected a value at status. Received: none"),
        ({"trial": "../2", "status": "failed"}, ": expected .* at trial"),
        ({"trial": 2, "status": "failed"}, ": expected a text at trial"),
        ({"trial": "2", "status": "done"}, ": .*'completed' or 'failed' at st"),
        ({"trial": "2", "status": "failed"}, ": expected a value at error"),
        (RECORDS[0], ": expected a trial that is not there yet"),
        (
            COMPLETED | {"validation": None},
            ": expected an object at validation. Received: None",
        ),
        (
            COMPLETED | {"test": {}},
            ": expected a value at test.loss. Received: none",
        ),
        (
            COMPLETED | {"validation": METRICS | {"loss": "low"}},
            ": expected a number at validation.loss. Received: 'low'",
        ),
        (
            COMPLETED | {"test": METRICS | {"tasks": {"a": {"auc": "high"}}}},
            ", test.tasks.a: expected a number or null at auc. Rec",
        ),
        (
            COMPLETED | {"config": {"k": 0}},
            ", config: `k` must be at least 1. Received: k=0",
        ),
    ],
)
def test_broken_line_is_named(line: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    file.write_text(f"{LINES}{text}\n", encoding="utf-8")
    with pytest.raises(FileError, match=f"^{file}, line 3{message}"):
        TrialLog(file).read()
