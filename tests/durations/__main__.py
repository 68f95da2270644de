"""Keeps what the tests of each backend took.

    python -m tests.durations REPORT.xml ...

Each report is what `pytest --junitxml` wrote, named after its backend. The CPU
seconds of its tests go to `tests/durations/BACKEND.csv`;
`python -m tests.durations.budget` sums them up.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.durations.report import read_report

FOLDER = Path(__file__).parent
# Tests below are kept as one sum for each file.
LEAST_SECONDS = 0.5


def main(reports: list[str]) -> None:
    for report in map(Path, reports):
        seconds = {
            test: case.seconds for test, case in read_report(report).items()
        }
        file = FOLDER / f"{report.stem}.csv"
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["test", "cpu_seconds"])
            writer.writerows(rows(seconds))


def rows(seconds: dict[str, float]) -> Iterator[tuple[str, float]]:
    """The tests that take long, and the sum of the others for each file."""
    others: defaultdict[str, float] = defaultdict(float)
    for test, took in sorted(seconds.items()):
        if took >= LEAST_SECONDS:
            yield test, took
        else:
            others[test.partition("::")[0]] += took
    for file, took in sorted(others.items()):
        yield f"{file}::(others)", round(took, 3)


if __name__ == "__main__":
    main(sys.argv[1:])
