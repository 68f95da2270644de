"""Small downloads of every data set that `recsys prepare` knows."""

import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import savemat

from tests.recsys.data.datasets.ali_ccp_files import write_ali_ccp
from tests.recsys.data.datasets.census_files import write_census
from tests.recsys.data.idx_files import write_mnist

ROWS = [(user, item) for user in range(1, 13) for item in range(user % 3, 9)]


def write_all(folder: Path) -> None:
    """Writes a folder per data set, named after it."""
    for name, write in _WRITERS.items():
        (folder / name).mkdir(parents=True)
        write(folder / name)


def _movielens_1m(folder: Path) -> None:
    lines = [
        f"{user}::{item}::{1 + item % 5}::978300760" for user, item in ROWS
    ]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")


def _movielens_100k(folder: Path) -> None:
    lines = [f"{user}\t{item}\t{1 + item % 5}\t7" for user, item in ROWS]
    _zip(folder / "ml-100k.zip", "ml-100k/u.data", "\n".join(lines) + "\n")


def _books(folder: Path) -> None:
    lines = ['"User-ID";"ISBN";"Book-Rating"']
    lines += [f'"{user}";"0{item}X";"{item}"' for user, item in ROWS]
    text = "\r\n".join(lines) + "\r\n"
    _zip(folder / "BX-CSV-Dump.zip", "BX-Book-Ratings.csv", text)


def _jester_rows() -> list[list[float]]:
    return [[2, 1.5, -9.25, *[99] * 98] for _ in range(30)]


def _jester_csv(folder: Path) -> None:
    lines = [",".join(map(str, row)) for row in _jester_rows()]
    _zip(folder / "jester-data-1.zip", "jester-data-1.csv", "\n".join(lines))


def _jester_xls(folder: Path) -> None:
    import xlwt

    workbook = xlwt.Workbook()
    sheet = workbook.add_sheet("jester")
    for number, row in enumerate(_jester_rows()):
        for column, value in enumerate(row):
            sheet.write(number, column, value)
    workbook.save(str(folder / "jester-data-1.xls"))


def _mnist(folder: Path) -> None:
    write_mnist(folder, 30, 10)
    for file in folder.glob("t10k-*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()


def _svhn(folder: Path) -> None:
    for part in ("train", "test", "extra"):
        pixels = np.zeros((32, 32, 3, 20), np.uint8)
        labels = np.arange(20)[:, None] % 10 + 1
        savemat(folder / f"{part}_32x32.mat", {"X": pixels, "y": labels})


def _digits(folder: Path) -> None:
    _mnist(folder)
    _svhn(folder)


def _cifar10(folder: Path) -> None:
    records = b"".join(bytes([i % 10]) + bytes(3072) for i in range(20))
    (folder / "data_batch_1.bin").write_bytes(records)
    (folder / "data_batch_2.bin.xz").write_bytes(lzma.compress(records))
    (folder / "test_batch.bin.gz").write_bytes(gzip.compress(records))


def _celeba(folder: Path) -> None:
    images = folder / "img_align_celeba"
    images.mkdir()
    names = [
        f"{number}.{'png' if number % 3 else 'jpg'}" for number in range(6)
    ]
    for number, name in enumerate(names):
        pixels = np.full((12, 10, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(images / name)
    lines = [str(len(names)), "Male Smiling", *(f"{n} 1 -1" for n in names)]
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines))
    lines = [f"{name} {number // 2}" for number, name in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(lines))


def _ali_ccp(folder: Path) -> None:
    write_ali_ccp(folder, 40, 10)


def _census_income(folder: Path) -> None:
    write_census(folder, 30, 10)


def _table(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "user": rng.integers(0, 9, 40),
            "item": [f"é{number}" for number in rng.integers(0, 9, 40)],
            "age": rng.normal(size=40),
            "time": pd.date_range("2020-01-30", periods=40).astype(str),
            "click": rng.integers(0, 2, 40),
            "price": rng.normal(size=40),
        }
    )
    table.to_csv(folder / "log.csv", index=False)
    table.to_parquet(folder / "log.parquet")
    table.to_csv(folder / "log.csv.gz", index=False)


def _sequences(folder: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        " ".join(map(str, [user, *rng.integers(0, 9, 3 + user)]))
        for user in range(6)
    ]
    (folder / "log.txt").write_text("\n".join(lines))
    attributes = {str(item): [item % 3, 7] for item in range(9)}
    (folder / "attributes.json").write_text(json.dumps(attributes))


def _item_lists(folder: Path) -> None:
    for split, first in (("train", 0), ("test", 6)):
        lines = [f"{user} {first} {first + user}" for user in range(6)]
        (folder / f"{split}.txt").write_text("\n".join(lines))


def _comet_rows(folder: Path) -> None:
    for split in ("train", "validation", "test"):
        lines = [f"{user},{user % 3 + 1},1,{user}" for user in range(1, 6)]
        text = "\n".join(["user,item,watch,rating", *lines, "7,2,0,", ""])
        (folder / f"{split}.csv").write_text(text)


def _zip(file: Path, member: str, text: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text)
    file.write_bytes(stream.getvalue())


_WRITERS = {
    "ali-ccp": _ali_ccp,
    "books": _books,
    "celeba": _celeba,
    "census-income": _census_income,
    "cifar10": _cifar10,
    "comet-rows": _comet_rows,
    "digits": _digits,
    "item-lists": _item_lists,
    "jester": _jester_csv,
    "jester-xls": _jester_xls,
    "movielens-100k": _movielens_100k,
    "movielens-1m": _movielens_1m,
    "multi-mnist": _mnist,
    "ratings": _movielens_100k,
    "sequences": _sequences,
    "svhn": _svhn,
    "table": _table,
}
