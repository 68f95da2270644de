import threading
from pathlib import Path

import pytest

from recsys.tuning.trial_log import TrialLog

LINES = '{"trial": "0", "error": "é"}\n{"trial": "1", "error": null}\n'
RECORDS = [{"trial": "0", "error": "é"}, {"trial": "1", "error": None}]


def test_a_line_each_in_the_order_of_arrival(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    assert log.read() == []
    for record in RECORDS:
        log.append(record)
    assert log.file.read_text(encoding="utf-8") == LINES
    assert log.read() == RECORDS
    assert log.find("1") == RECORDS[1]
    assert log.find("2") is None


@pytest.mark.parametrize("rest", ['{"trial": "2", "err', "{", '{"trial": "2"}'])
def test_cut_off_line_counts_as_not_there(rest: str, tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.file.write_text(LINES + rest, encoding="utf-8")
    assert log.read() == RECORDS
    assert log.find("2") is None
    log.append({"trial": "2"})
    text = log.file.read_text(encoding="utf-8")
    assert text == LINES + '{"trial": "2"}\n'


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")

    def append(trial: int) -> None:
        log.append({"trial": str(trial), "text": str(trial) * 10_000})

    threads = [threading.Thread(target=append, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = log.read()
    assert sorted(record["trial"] for record in records) == list("01234567")
    assert all(len(record["text"]) == 10_000 for record in records)


def test_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.file.write_text("{}\nnothing\n")
    with pytest.raises(ValueError, match=r"trials.jsonl, line 2: expected JS"):
        log.read()
