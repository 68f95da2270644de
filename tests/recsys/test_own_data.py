"""Runs the commands and the Python of `docs/own_data.md`."""

import re
import shlex
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recsys.cli import run as recsys
from recsys.data import load
from recsys.runs.run import load_ranker

PAGE = Path(__file__).parents[2] / "docs" / "own_data.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What the page says is of files and options; every kind of feature and task
# that is in it is trained on every backend elsewhere.
pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

SAMPLES = {
    "ali-ccp": "ali_ccp_{}_sample.csv",
    "aliexpress": "aliexpress_{}_sample.csv",
    "census-income": "census_income_{}_sample.csv",
}
ALI_CCP_IDS = [str(name) for name in (*range(101, 119), "109_14", "110_14")]
ALI_CCP_NUMBERS = ["D109_14", "D110_14", "D508", "D509", "D702", "D853"]
CENSUS_NUMBERS = [
    "age",
    "wage per hour",
    "capital gains",
    "capital losses",
    "divdends from stocks",
    "num persons worked for employer",
    "weeks worked in year",
]


def write(
    file: Path,
    num_rows: int,
    ids: Sequence[str],
    numbers: Sequence[str],
    tasks: Sequence[str],
) -> None:
    """Writes a table of random features, and labels that depend on them."""
    rng = np.random.default_rng(num_rows)
    columns = {name: rng.integers(0, 9, num_rows) for name in ids}
    columns |= {name: rng.random(num_rows).round(4) for name in numbers}
    first = columns[ids[0]]
    columns |= {task: (first + n) % 3 == 0 for n, task in enumerate(tasks)}
    file.parent.mkdir(exist_ok=True)
    frame = pd.DataFrame(columns)
    frame.astype(dict.fromkeys(tasks, int)).to_csv(file, index=False)


def generate(folder: Path) -> None:
    """Writes small files of the forms that the page is about."""
    for split, num_rows in (("train", 60), ("val", 31), ("test", 32)):
        write(
            folder / "ali-ccp" / SAMPLES["ali-ccp"].format(split),
            num_rows,
            ALI_CCP_IDS,
            ALI_CCP_NUMBERS,
            ["click", "purchase"],
        )
        write(
            folder / "aliexpress" / SAMPLES["aliexpress"].format(split),
            num_rows,
            ["search_id", *(f"categorical_{n}" for n in range(1, 17))],
            [f"numerical_{n}" for n in range(1, 64)],
            ["click", "conversion"],
        )
        write(
            folder / "census-income" / SAMPLES["census-income"].format(split),
            num_rows,
            ["class of worker", "education", "detailed household summary"],
            CENSUS_NUMBERS,
            ["income", "marital status"],
        )
    pairs = pd.DataFrame({"user": np.arange(400) // 20, "item": range(400)})
    rated = pairs.assign(rating=1.0 + pairs["item"] % 10)[::3]
    (folder / "book_crossing").mkdir()
    for name, table in {
        "book_history": pairs.assign(accessed=1),
        "book_ratings": rated,
    }.items():
        file = folder / "book_crossing" / f"{name}.dat"
        table.to_csv(file, sep="\t", index=False)


def copy(real_data: Path, folder: Path) -> None:
    """Brings the published samples to where the page expects them."""
    for name, pattern in SAMPLES.items():
        (folder / name).mkdir()
        source = real_data / "mtl-samples"
        for file in source.glob(pattern.format("*")):
            shutil.copy(file, folder / name)
    archive = real_data / "book-crossing" / "book_crossing.zip"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)


def write_clicks(file: Path, first: int = 0) -> None:
    rng = np.random.default_rng(0)
    item = rng.integers(first, first + 20, 400)
    click = item % 2
    time = pd.date_range("2026-01-01", periods=400, freq="h")
    frame = pd.DataFrame(
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
            "user": [f"u{number}" for number in rng.integers(0, 30, 400)],
            "item": item,
            "category": np.where(item < 10, "shoes", "hats"),
            "price": rng.uniform(5, 90, 400).round(2),
            "click": click,
            "purchase": click * rng.integers(0, 2, 400),
        }
    )
    file.parent.mkdir(exist_ok=True)
    frame.sample(frac=1, random_state=0).to_csv(file, index=False)


def write_shop(folder: Path) -> None:
    """Writes a file per month, which sort in another order as texts."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2026-01-01", "2026-03-31").repeat(4)
    size = len(days)
    rows = pd.DataFrame(
        {
            "day": days.strftime("%d/%m/%Y"),
            "time": "12:00",
            "user": rng.integers(0, 9, size),
            "item": rng.integers(0, 9, size),
            "note": "a, b",
            "click": np.arange(size) % 2,
        }
    )
    folder.mkdir()
    for month, part in rows.groupby(days.month):
        part.to_csv(folder / f"2026-{month:02}.csv", sep=";", index=False)


def write_plain(folder: Path) -> None:
    """Writes a file without a header."""
    number = np.arange(100)
    columns = [number % 7, number % 5, number % 4 + 1, number + 1_700_000_000]
    folder.mkdir()
    pd.DataFrame(dict(enumerate(columns))).to_csv(
        folder / "log.tsv.gz", sep="\t", index=False, header=False
    )


def run_page(heading: str = "") -> None:
    """Runs what follows a heading."""
    names: dict[str, object] = {}
    text = PAGE.read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text[text.index(heading) :]):
        if language == "python":
            exec(block, names)
            continue
        for command in block.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(command)
            assert program == "recsys"
            assert recsys(arguments) == 0, command


def rows_of(folder: str) -> list[int]:
    dataset = load(folder)
    names = ("train", "validation", "test")
    return [len(dataset.split(name)) for name in names]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("warm_tensorflow")
def test_the_page_runs(folder: Path) -> None:
    write_clicks(folder / "logs" / "clicks.csv")
    write_clicks(folder / "logs" / "new_day.csv", first=10)
    write_shop(folder / "shop")
    write_plain(folder / "plain")
    generate(folder)
    run_page()
    assert rows_of("data/clicks") == [280, 60, 60]
    assert rows_of("data/shop") == [252, 54, 54]
    assert rows_of("data/plain") == [70, 15, 15]
    assert rows_of("data/ali-ccp") == [60, 31, 32]
    assert rows_of("data/aliexpress") == [54, 6, 32]
    assert rows_of("data/census-income") == [86, 19, 18]
    assert rows_of("data/book-crossing") == [320, 40, 40]
    items = load_ranker("runs/new-day").vocabularies["item"]
    assert sorted(items.values) == [*range(30)]
    for name in ("clicks", "ali-ccp", "census-income", "book-crossing"):
        assert (folder / "runs" / name / "metrics.json").exists()
    scored = pd.read_csv("scored.csv")
    assert scored["click"].between(0, 1).all()
    assert scored["click_label"].isin((0, 1)).all()
    assert (folder / "serving" / "clicks" / "1" / "saved_model.pb").exists()


def test_the_page_runs_on_the_published_samples(
    folder: Path, real_data: Path
) -> None:
    copy(real_data, folder)
    run_page("## Many columns, split already")
    assert rows_of("data/ali-ccp") == [100, 50, 50]
    assert rows_of("data/aliexpress") == [90, 10, 20]
    assert sum(rows_of("data/census-income")) == 120
    assert len(load("data/census-income").schema.features) == 39
    assert sum(rows_of("data/book-crossing")) == 272_678
    rated = load("data/book-crossing").split("train")["rated"].sum()
    assert rated == pytest.approx(0.8 * 62_656, rel=0.01)
