"""Prints the kept CPU seconds by folder and backend, as a Markdown table.

    python -m tests.durations.folders [DEPTH]

Folders are those of `tests`, down to a depth of 2 unless it is given.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent
ALL = "all"


def main(depth: int) -> None:
    files = {file.stem: file for file in sorted(FOLDER.glob("*.csv"))}
    seconds = {
        backend: seconds_by_folder(file, depth)
        for backend, file in files.items()
    }
    print(f"| folder | {' | '.join(files)} |")
    print(f"|---|{'---:|' * len(files)}")
    total = sum(seconds.values(), start=Counter())
    for folder, _ in total.most_common():
        cells = [f"{of[folder]:,.0f}" for of in seconds.values()]
        print(f"| {folder} | {' | '.join(cells)} |")


def seconds_by_folder(file: Path, depth: int) -> Counter[str]:
    """The CPU seconds of each folder in a file, and of all."""
    seconds: Counter[str] = Counter()
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            # tests.keras_moe.layers.test_moe::test_by_hand
            module = row["test"].partition("::")[0].split(".")
            folders = [
                part for part in module if not part.lower().startswith("test")
            ][:depth]
            took = float(row["cpu_seconds"])
            seconds["/".join(folders) or "tests"] += took
            seconds[ALL] += took
    return seconds


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
