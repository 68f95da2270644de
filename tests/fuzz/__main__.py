"""Runs mutated files through every command: `python -m tests.fuzz --help`."""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.workers import run_case
from tests.fuzz.workers import run_cases
from tests.fuzz.workers import write_to


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="per case")
    parser.add_argument("--case", help="run one case again, such as 0:17")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        from tests.fuzz import corpus

        folder = Path(name)
        corpus.build(folder / "corpus")
        if given.case:
            return _again(given.case, folder)
        seeds = [f"{given.seed}:{number}" for number in range(given.cases)]
        return _all(seeds, folder, given.workers, given.seconds)


def _all(seeds: list[str], folder: Path, workers: int, seconds: float) -> int:
    """Runs cases; prints each kind of problem once, and how many there are."""
    start = time.perf_counter()
    problems: dict[str, int] = {}
    results = run_cases(seeds, folder / "corpus", folder, workers, seconds)
    for result in results:
        if result.problem is None:
            continue
        kind = _kind(result.problem)
        problems[kind] = problems.get(kind, 0) + 1
        if problems[kind] == 1:
            print(f"case {result.seed}: {result.command}\n{result.problem}\n")
    rate = len(seeds) / (time.perf_counter() - start)
    print(
        f"{len(seeds)} cases, {sum(problems.values())} of them wrong in "
        f"{len(problems)} ways, {rate:.1f} cases per second"
    )
    return 1 if problems else 0


def _kind(problem: str) -> str:
    """What problems of one cause have in common."""
    places = re.findall(r'File ".*?([^/]+)", line (\d+)', problem)
    if places:
        return f"{places[-1]}"
    return re.sub(r"/\S+|\d+|'[^']*'", "", problem)


def _again(seed: str, folder: Path) -> int:
    kept = Path(tempfile.mkdtemp())
    files = kept / "output", kept / "errors"
    shutil.copytree(folder / "corpus", kept / "corpus")
    terminal = [os.dup(number) for number in (1, 2)]
    write_to(*files)
    result = run_case(seed, kept / "corpus", kept / "case", *files)
    for number, shown in enumerate(terminal, start=1):
        os.dup2(shown, number)
    for file in files:
        print(file.read_text(errors="replace"))
    print(f"{result.command}\n{result.problem or 'as it should be'}\nin {kept}")
    return 1 if result.problem else 0


if __name__ == "__main__":
    sys.exit(main())
