"""What the tests of each backend took, beside what they may take.

    python -m tests.durations REPORT.xml ... [--keep]

Each report is what `pytest --junitxml` wrote, named after its backend. With
`--keep`, the CPU seconds of each test are written to `tests/durations/`.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(__file__).parent
# Tests below are kept as one sum for each file.
LEAST_SECONDS = 0.5


def main(arguments: list[str]) -> int:
    """Prints a line for each backend; 1 if one of them takes too long."""
    keep = "--keep" in arguments
    reports = [Path(word) for word in arguments if word != "--keep"]
    budgets = json.loads((FOLDER / "budgets.json").read_text())
    too_long = False
    for report in reports:
        seconds = cpu_seconds(report)
        took, budget = sum(seconds.values()), budgets[report.stem]
        too_long |= took > budget
        print(
            f"{report.stem:10} {len(seconds):5,} tests"
            f" {took:6,.0f} CPU s of {budget:,}"
            + (" EXCEEDED" if took > budget else "")
        )
        if keep:
            write(FOLDER / f"{report.stem}.csv", rows(seconds))
    return int(too_long)


def cpu_seconds(report: Path) -> dict[str, float]:
    """The CPU seconds of each test in a report, child processes included."""
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}": sum(
            float(one.get("value", 0))
            for one in case.iter("property")
            if one.get("name") == "cpu"
        )
        for case in cases
    }


def rows(seconds: dict[str, float]) -> Iterable[tuple[str, float]]:
    """The tests that take long, and the sum of the others for each file."""
    others: Counter[str] = Counter()
    for test, took in sorted(seconds.items()):
        if took >= LEAST_SECONDS:
            yield test, took
        else:
            others[test.partition("::")[0]] += took
    for file, took in sorted(others.items()):
        yield f"{file}::(others)", round(took, 3)


def write(file: Path, table: Iterable[tuple[str, float]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["test", "cpu_seconds"])
        writer.writerows(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
