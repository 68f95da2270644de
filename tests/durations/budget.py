"""Sums up `make test`: a line for each backend, and what is wrong with them.

    python -m tests.durations.budget [--slower FACTOR] [--all] FOLDER BACKEND...

The folder has the report of each backend, and the list of the tests that
`--once` left out there. CPU seconds are compared with a budget, as they hardly
change where other programs run beside the tests; a machine on which each takes
longer has `--slower`. Where there are reports of all backends, each test that
one has left out must have run on another.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.durations.report import Case
from tests.durations.report import read_report
from tests.once import BACKENDS

# CPU seconds, up to twice what the tests take on a quiet machine, as a busy one
# adds up to a half of it.
BUDGETS = {"none": 225, "tensorflow": 1850, "jax": 1600, "torch": 1550}
# Reasons to skip a test that are those of this machine, not of a backend.
ABSENT = (
    "could not import",
    "on this machine",
    "RECSYS_DATA names no folder",
    "is not there",
)

Reports = dict[str, dict[str, Case]]
LeftOut = dict[str, set[str]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durations.budget")
    parser.add_argument("--slower", type=float, default=1.0)
    parser.add_argument("--all", action="store_true", help="without a budget")
    parser.add_argument("folder", type=Path)
    parser.add_argument("backends", nargs="+", choices=BUDGETS)
    given = parser.parse_args(arguments)
    reports = {
        backend: read_report(given.folder / f"{backend}.xml")
        for backend in given.backends
    }
    left_out: LeftOut = {}
    if not given.all:
        left_out = {
            backend: names_in(given.folder / f"{backend}.left_out.txt")
            for backend in given.backends
        }
    for backend, cases in reports.items():
        print(line(backend, cases, left_out))
    errors = list(left_to_nobody(reports, left_out))
    if not given.all:
        errors += over_budget(reports, given.slower)
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 1 if errors else 0


def names_in(file: Path) -> set[str]:
    return set(file.read_text().splitlines())


def line(backend: str, cases: dict[str, Case], left_out: LeftOut) -> str:
    skipped = sum(bool(case.skipped) for case in cases.values())
    return (
        f"{backend:10} {len(cases) - skipped:6,} tests, {skipped:5,} skipped, "
        f"{len(left_out.get(backend, ())):5,} left to others, "
        f"{seconds_of(cases):6,.0f} CPU s"
    )


def seconds_of(cases: dict[str, Case]) -> float:
    return sum(case.seconds for case in cases.values())


def over_budget(reports: Reports, slower: float) -> Iterator[str]:
    for backend, cases in reports.items():
        budget = BUDGETS[backend] * slower
        if seconds_of(cases) > budget:
            longest = sorted(cases, key=lambda name: -cases[name].seconds)[:3]
            listed = ", ".join(
                f"{name} ({cases[name].seconds:.0f})" for name in longest
            )
            yield (
                f"{backend}: expected at most {budget:,.0f} CPU seconds. "
                f"Received: {seconds_of(cases):,.0f}, most of them in {listed}"
            )


def left_to_nobody(reports: Reports, left_out: LeftOut) -> Iterator[str]:
    """Tests that a mark has taken from a backend, and no other one has run."""
    if not set(BACKENDS) <= set(reports):
        return
    for test in sorted(set().union(*left_out.values())):
        found = [cases[test] for cases in reports.values() if test in cases]
        if not any(ran(case) or is_absent(case) for case in found):
            yield (
                f"{test}: expected to run on one backend. Received: left out, "
                f"or skipped, on each"
            )


def ran(case: Case) -> bool:
    return not case.skipped


def is_absent(case: Case) -> bool:
    return any(reason in case.skipped for reason in ABSENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
