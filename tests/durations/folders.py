"""Prints the kept CPU seconds by folder and backend, as a Markdown table.

    python -m tests.durations.folders [DEPTH]

Folders are those of `tests`, down to a depth of 2 unless it is given.
"""

import csv
import sys
from collections import defaultdict
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
    folders = {folder for of in seconds.values() for folder in of}
    rows = {
        folder: [of.get(folder, 0.0) for of in seconds.values()]
        for folder in folders
    }
    for folder in sorted(folders, key=lambda folder: -sum(rows[folder])):
        cells = [f"{took:,.0f}" for took in rows[folder]]
        print(f"| {folder} | {' | '.join(cells)} |")


def seconds_by_folder(file: Path, depth: int) -> dict[str, float]:
    """The CPU seconds of each folder in a file, and of all."""
    seconds: dict[str, float] = defaultdict(float)
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
