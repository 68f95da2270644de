"""Writes docs/shelf.md from what `recsys reproduce` has measured.

cp OUT/results.csv benchmarks/results/shelf/NAME.csv
python benchmarks/shelf_page.py
"""

from pathlib import Path

from recsys.reporting.shelf import BENCHMARKS
from recsys.reporting.shelf.shelf_page import shelf_page

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "shelf"


def main() -> None:
    page = shelf_page(BENCHMARKS, RESULTS)
    (ROOT / "docs" / "shelf.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
