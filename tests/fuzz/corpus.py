"""What is mutated: small files of every kind, and commands that read them."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import recsys
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.data import write_table
from recsys.data.items_file import write_items
from recsys.processes.training_processes import TrainingProcesses
from recsys.runs.run import Run
from tests.fuzz import raw_files
from tests.recsys.serving.onnx_models import write_ranker
from tests.recsys.serving.onnx_models import write_tiny

SIZES = {"train": 40, "validation": 20, "test": 20}
TABLES = Schema(
    "tiny",
    {"user": "id", "film": "id", "age": "number"},
    {"watch": "binary", "rating": "regression"},
)
IMAGES = Schema(
    "multi-fashion-mnist", {"image": "image"}, {"kind": "multiclass"}
)
# Every kind of feature and of task, and every role of a column.
KINDS = Schema(
    "kinds",
    {
        "user": "id",
        "item": {"type": "id", "min_count": 2, "dim": 3},
        "device": {"type": "hash", "buckets": 5},
        "tags": {"type": "ids", "pooling": "max", "length": 3},
        "history": {
            "type": "sequence",
            "of": "item",
            "length": 4,
            "pooling": "attention",
            "query": "item",
        },
        "age": {"type": "number", "indicator": True},
        "price": {"type": "number", "transform": "log1p"},
        "hour": {"type": "bucket", "quantiles": 3},
        "size": {"type": "bucket", "borders": [0.0, 1.5]},
        "cover": {"type": "vector", "size": 2},
    },
    {
        "click": "binary",
        "buy": {"type": "binary", "after": "click", "pos_weight": 2.0},
        "share": {"type": "binary", "focal": 1.5},
        "stars": "regression",
        "reason": "multiclass",
    },
    group="user",
    weight="importance",
    time="time",
)
CATALOGUE = Schema(
    "catalogue",
    {"user": "id", "film": "id", "age": "number"},
    {"watch": "binary", "rating": "regression"},
    item="film",
    item_features=[],
)
# A log of requests with the chance of what was shown.
SHOP = Schema(
    "shop",
    {"user": "id", "film": "id", "age": "number"},
    {"watch": "binary", "rating": "regression"},
    group="request",
    propensity="chance",
)
# Of noise, equal models are as good: they are accepted, in any time.
RULES = {
    "improved": "none",
    "most_loss_increase": 1.0,
    "most_calibration_error": 10.0,
    "most_psi": 100.0,
    "least_effective_rows": 0.0,
    "most_latency_ratio": 1000.0,
    "policy_top": 2,
}
FIELDS = {
    "gate": "top-k",
    "num_experts": 3,
    "embedding_dim": 2,
    "expert_units": [4],
    "head_units": [4],
    "batch_size": 20,
    "epochs": 1,
}
SPACE = {
    "learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"},
    "k": [1, 2],
    "task_weights": {"watch": [0.5, 0.9]},
}
COMPARISON = {
    "base": FIELDS,
    "models": {"a": {"k": 1}, "b": {"gate": "softmax"}},
    "settings": {"even": {"task_weights": {"watch": 0.5, "rating": 0.5}}},
    "seeds": [0, 1],
    "against": {"a": "b"},
}

PLACE = "@CASE@"  # Stands in files for the folder of a case.


@dataclass(frozen=True)
class Target:
    """A command and the files that are mutated before it runs.

    Attributes:
        tree: Folder of the corpus that the command works on a copy of.
        files: Patterns of the files in it, one of which is mutated.
        command: The words after `recsys`; `{}` stands for the copy.
        weight: How often it is run; less often where it takes seconds.
    """

    tree: str
    files: str
    command: str
    weight: int = 4

    def __str__(self) -> str:
        return f"{self.tree}: {self.command}"


def _prepare(name: str, options: str = "", tree: str = "") -> Target:
    tree = tree or name
    return Target(
        f"raw/{tree}",
        "**/*",
        f"prepare {name} --raw-dir {{}} --out {{}}/out {options}",
    )


_TRAIN = "train --out {}/out --data {}"
_DESCRIBE = "describe --out {}/out --data {}"
_RUNS = "out/even/*/*/*.*"
_RUN = "--run {}/run"
_INPUT = "--input {}/data/test.csv --out {}/out.csv"
_COMPARE = "compare {}/comparison.json --data {}/data --out {}/out"
_TABLE = (
    "--option ids=user,item --option numbers=age --option binary=click "
    "--option regression=price --option train="
)
_SPACE = "--trials 9 --gate top-k --epochs 1 --space {}/space.yaml"
_RERUN = "rerun --sweep {}/sweep --out {}/out --seeds 2"
_TUNE = f"tune --data {{}}/data --out {{}}/out {_SPACE}"
_RESUME_TUNE = f"tune --data {{}}/data --out {{}}/sweep {_SPACE} --resume"
_REPEAT = "train --config {}/run/config.json --out {}/out"
_RESUME = "train --out {}/run --resume"
_GO_ON = "train --from {}/run --data {}/data --out {}/out"
_KINDS = "--option schema=columns.json --split time --option train="
_EVALUATE = f"evaluate {_RUN} --data {{}}/data"
_PREDICT = f"predict {_RUN} {_INPUT}"
_COMPRESS = (
    f"compress {_RUN} --data {{}}/data --out {{}}/out --experts 2 --int8"
)
_CALIBRATE = f"calibrate {_RUN} --data {{}}/data --by user --min-rows 2"
_RECOMMEND = f"recommend {_RUN} --user 1 --top 2 --exclude-seen"
_REPORT = "report {}/run --out {}/out"
_OFF_POLICY = f"off-policy {_RUN} --data {{}}/data --reward watch"
_PROMOTE = (
    "promote --old {}/old --new {}/new --data {}/data --out {}/out "
    "--rules {}/rules.yaml"
)
_SERVE = "serve --model {}/model --port 0 --name m"
TARGETS = [
    Target("csv", "*", _TRAIN),
    Target("csv-gz", "*", _TRAIN),
    Target("parquet", "*", _TRAIN),
    Target("images", "*", _TRAIN),
    Target("kinds", "*", _TRAIN, 12),
    Target("kinds-parquet", "*", _TRAIN, 8),
    Target("kinds", "*", _DESCRIBE),
    Target("kinds-parquet", "*", _DESCRIBE, 2),
    Target("images", "*", _DESCRIBE, 1),
    _prepare("ali-ccp"),
    _prepare("books", "--option min_records=1"),
    _prepare("celeba", "--option attributes=Male --option height=8"),
    _prepare("census-income"),
    _prepare("cifar10"),
    _prepare("comet-rows"),
    _prepare("digits"),
    _prepare(
        "item-lists",
        "--option train=train.txt --option test=test.txt "
        "--option validation_share=0.3",
    ),
    _prepare("jester"),
    _prepare("jester", tree="jester-xls"),
    _prepare("movielens-100k"),
    _prepare("movielens-1m"),
    _prepare("multi-mnist"),
    _prepare(
        "ratings",
        "--option file=ml-100k/u.data --option archive=ml-100k.zip",
    ),
    _prepare(
        "sequences",
        "--option file=log.txt --option attributes=attributes.json",
    ),
    _prepare("svhn"),
    _prepare("table", _TABLE + "log.csv --option time=time"),
    _prepare("table", _TABLE + "log.csv.gz"),
    _prepare("table", _TABLE + "log.parquet"),
    _prepare("table", _TABLE + "log.csv --option negatives=2"),
    _prepare("table", _KINDS + "log.csv", tree="kinds"),
    _prepare("table", _KINDS + "log.parquet", tree="kinds"),
    Target("run", "run/config.json", _REPEAT),
    Target("resumable", "run/checkpoint/*", _RESUME),
    Target("resumable", "run/config.json", _RESUME),
    Target("run", "run/optimizer.npz", _GO_ON, 1),
    Target("run", "run/model.keras", _EVALUATE, 2),
    Target("image-run", "run/*.*", _EVALUATE, 1),
    Target("run", "run/model.keras", _PREDICT, 2),
    Target("run", "data/test.csv", _PREDICT, 2),
    Target("kinds-run", "data/*", f"{_EVALUATE} --by price --intervals 3", 2),
    Target("kinds-run", "data/*", f"{_EVALUATE} --by user --intervals 3", 4),
    Target("kinds-run", "data/test.csv", _PREDICT, 6),
    Target("kinds-run", "run/model.keras", _PREDICT, 4),
    Target("run", "run/model.keras", f"export {_RUN} --out {{}}/out", 2),
    Target("run", "run/*", _CALIBRATE, 1),
    Target("run", "run/model.keras", _COMPRESS, 1),
    Target("run", "data/*", _COMPRESS, 1),
    Target("catalogue-run", "run/*.*", _RECOMMEND, 2),
    Target("catalogue-run", "data/*", _RECOMMEND, 2),
    Target("shop-run", "data/*", _OFF_POLICY, 2),
    Target("promotion", "data/*", _PROMOTE, 3),
    Target("promotion", "rules.yaml", _PROMOTE, 1),
    Target("promotion", "new/**/*.*", _PROMOTE, 2),
    Target("served", "model/1/*", _SERVE),
    Target("run", "run/*.*", _REPORT, 1),
    Target("image-run", "run/*.*", _REPORT, 1),
    Target("run", "run/*.*", "info {}/run", 1),
    Target("sweep", "sweep/*.json*", "report {}/sweep --out {}/out", 1),
    Target("comparison", _RUNS, "report {}/out --out {}/report", 1),
    Target("sweep", "sweep/*.json*", _RERUN),
    Target("sweep", "sweep/*.json*", _RESUME_TUNE),
    Target("sweep", "sweep/tuner/*.json", _RESUME_TUNE),
    Target("sweep", "space.yaml", _TUNE),
    Target("comparison", "comparison.json", _COMPARE),
    Target("comparison", _RUNS, _COMPARE),
]


def build(folder: Path) -> None:
    """Writes the trees that the targets name."""
    raw_files.write_all(folder / "raw")
    tables = Dataset(TABLES, {name: _rows(n) for name, n in SIZES.items()})
    tables.write(folder / "parquet")
    for suffix in (".csv", ".csv.gz"):
        data = folder / suffix.strip(".").replace(".", "-")
        data.mkdir()
        (data / "dataset.json").write_text(TABLES.to_json())
        for name, split in tables.splits.items():
            write_table(split, data / f"{name}{suffix}")
    kinds = {name: _rows_of_kinds(n) for name, n in SIZES.items()}
    _write_kinds(kinds, folder)
    _write_catalogue(folder / "catalogue")
    write_tiny(folder / "served" / "model" / "1")
    shop = {name: _requests(count) for name, count in SIZES.items()}
    Dataset(SHOP, shop).write(folder / "shop")
    _write_promotion(folder / "promotion", folder / "shop")
    images = {name: _images(n) for name, n in SIZES.items()}
    ImageDataset(IMAGES, images, {"kind": 2}).write(folder / "images")
    _build_runs(folder)
    _build_sweep(folder)
    _build_comparison(folder)


def _rows(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(count)
    watch = rng.integers(0, 2, count).astype(float)
    return pd.DataFrame(
        {
            "user": rng.integers(0, 5, count),
            "film": [f"é{number}" for number in rng.integers(0, 5, count)],
            "age": rng.normal(40, 10, count),
            "watch": watch,
            "rating": np.where(watch == 1, rng.normal(3, 1, count), np.nan),
        }
    )


def _rows_of_kinds(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(count)

    def lists(values: list[Any], longest: int) -> list[list[Any]]:
        sizes = rng.integers(0, longest, count)
        return [rng.choice(values, size).tolist() for size in sizes]

    def some(values: Any) -> Any:
        return np.where(rng.random(count) < 0.9, values, np.nan)

    click = rng.integers(0, 2, count)
    first = {40: "2026-01-01", 20: "2026-02-01"}[count]
    return pd.DataFrame(
        {
            "user": rng.integers(0, 5, count),
            "item": [f"i{number}" for number in rng.integers(0, 5, count)],
            "device": rng.integers(0, 9, count),
            "tags": lists([3, 5, 7], 5),
            "history": lists([f"i{number}" for number in range(6)], 7),
            "age": some(rng.normal(40, 10, count)),
            "price": rng.exponential(20, count),
            "hour": some(rng.uniform(0, 24, count)),
            "size": rng.normal(size=count),
            "cover": rng.normal(size=(count, 2)).round(2).tolist(),
            "click": click,
            "buy": np.where(click, rng.integers(0, 2, count), np.nan),
            "share": rng.integers(0, 2, count),
            "stars": some(rng.normal(3, 1, count)),
            "reason": np.arange(count) % 3,
            "importance": rng.uniform(0, 2, count).round(1),
            "time": pd.date_range(first, periods=count, freq="h"),
        }
    )


def _write_kinds(splits: dict[str, pd.DataFrame], folder: Path) -> None:
    """As files of one's own, and as data folders of both forms."""
    text = KINDS.to_json()
    raw, csv, parquet = (
        folder / name for name in ("raw/kinds", "kinds", "kinds-parquet")
    )
    for place in (raw, csv, parquet):
        place.mkdir()
    (raw / "columns.json").write_text(text)
    (csv / "dataset.json").write_text(text)
    (parquet / "dataset.json").write_text(text)
    for name, split in splits.items():
        write_table(split, csv / f"{name}.csv")
        write_table(split, parquet / f"{name}.parquet")
    write_table(splits["train"], raw / "log.csv")
    write_table(splits["train"], raw / "log.parquet")


def _write_catalogue(folder: Path) -> None:
    """As the tables, with titles of the films."""
    splits = {name: _rows(count) for name, count in SIZES.items()}
    Dataset(CATALOGUE, splits).write(folder)
    films = sorted(set(splits["train"]["film"]))
    titles = [f"Title of {film}" for film in films]
    write_items(pd.DataFrame({"film": films, "title": titles}), folder)


def _requests(count: int) -> pd.DataFrame:
    """Requests of four rows, two of which were shown."""
    rows = _rows(count)
    shown = np.arange(count) % 4 < 2
    rows.loc[~shown, ["watch", "rating"]] = np.nan
    rows["request"] = np.arange(count) // 4
    rows["chance"] = np.where(shown, 0.5, np.nan)
    return rows


def _write_promotion(folder: Path, data: Path) -> None:
    """Two models that are served, and the data of a day."""
    for name in ("old", "new"):
        write_ranker(folder / name)
    shutil.copytree(data, folder / "data")
    (folder / "rules.yaml").write_text(json.dumps(RULES))


def _images(count: int) -> Images:
    rng = np.random.default_rng(count)
    pixels = rng.integers(0, 255, (count, 16, 16, 1), np.uint8)
    return Images.of(pixels, {"kind": np.arange(count) % 2})


def _build_runs(folder: Path) -> None:
    """On tables, images, all kinds, with retrieval; one half way through."""
    with patch.object(Run, "remove_checkpoint"):
        _build_run(folder / "run", folder / "csv")
    _build_run(folder / "image-run", folder / "images")
    # With counts of ids beside the vocabularies.
    _build_run(folder / "kinds-run", folder / "kinds", count_days=7)
    _build_run(folder / "catalogue-run", folder / "catalogue", retrieval=True)
    _build_run(folder / "shop-run", folder / "shop")
    shutil.copytree(folder / "run", folder / "resumable")
    shutil.rmtree(Run(folder / "run" / "run").checkpoint)
    resumable = Run(folder / "resumable" / "run")
    config = json.loads(resumable.config.read_text())
    # A checkpoint of one epoch has no average of epochs.
    further = {"epochs": 2, "epoch_average": 0.0}
    resumable.config.write_text(json.dumps(config | further))
    resumable.metrics.unlink()


def _build_run(folder: Path, data: Path, **fields: Any) -> None:
    shutil.copytree(data, folder / "data")
    run = folder / "run"
    places = {"data": str(folder / "data"), "out": str(run)}
    recsys.train({**FIELDS, **places, **fields})
    _forget(run, folder)


def _build_sweep(folder: Path) -> None:
    tree = folder / "sweep"
    shutil.copytree(folder / "csv", tree / "data")
    (tree / "space.yaml").write_text(json.dumps(SPACE))
    fields = {
        "data": str(tree / "data"),
        "out": str(tree / "sweep"),
        "gate": "top-k",
        "epochs": 1,
    }
    with _copying(folder / "run" / "run"):
        recsys.tune(fields, 2, space=tree / "space.yaml")
    # As if it had been started with more of them.
    plan = json.loads((tree / "sweep" / "sweep.json").read_text())
    text = json.dumps(plan | {"trials": 9})
    (tree / "sweep" / "sweep.json").write_text(text)
    _forget(tree / "sweep", tree)


def _build_comparison(folder: Path) -> None:
    tree = folder / "comparison"
    shutil.copytree(folder / "csv", tree / "data")
    (tree / "comparison.json").write_text(json.dumps(COMPARISON))
    with _copying(folder / "run" / "run"):
        recsys.compare(
            tree / "comparison.json", tree / "out", data=str(tree / "data")
        )
    _forget(tree / "out", tree)


def _copying(run: Path) -> Any:
    """Lets a training be a copy of another run."""

    def train(self: TrainingProcesses, config: TrainConfig) -> None:
        shutil.copytree(run, config.out)
        kept = json.loads((run / "config.json").read_text())
        content = kept | {
            name: value
            for name, value in config.to_mapping().items()
            if value is not None and name != "task_weights"
        }
        Run(config.out).config.write_text(json.dumps(content))

    return patch.object(TrainingProcesses, "train", train)


def _forget(folder: Path, tree: Path) -> None:
    """Writes `PLACE` for the tree, and drops what no command reads."""
    for file in folder.rglob("*.json*"):
        text = file.read_text(encoding="utf-8").replace(str(tree), PLACE)
        file.write_text(text, encoding="utf-8")
    for name in ("plots", "tensorboard"):
        for unread in [*folder.rglob(name)]:
            shutil.rmtree(unread)
