"""Models whose tables are exported in fewer bytes, and their losses."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from recsys.data import load
from recsys.errors import DataError
from recsys.errors.choices import check_choice
from recsys.exporting.item_index import index_inside
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.measuring.measuring import Measuring
from recsys.measuring.measuring import scores_of
from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import TABLE_TYPES
from recsys.models.compact_tables import compact_retrieval
from recsys.models.compact_tables import compact_tables
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.serving.two_stage_runner import BRUTE_FORCE

# In the folder of a model: what its tables cost, as `compacted` returns it.
TABLES_FILE = Path("assets.extra", "tables.json")


def check_tables(tables: str) -> None:
    """Raises ValueError unless tables can be stored so."""
    check_choice("tables", tables, TABLE_TYPES)


def compacted(
    run: Run, ranker: Ranker, tables: str, index: str | None = None
) -> JsonObject:
    """Stores the tables of a ranker in fewer bytes, in place.

    Args:
        run: The run, whose test split the cost is measured on.
        ranker: Its model, which is only exported after that.
        tables: `"float16"` or `"int8"`.
        index: Index of two stages, one of
            `recsys.exporting.item_index.INDEXES`; `None` (default) where
            the retrieval is not exported. The items' vectors are stored so if
            the model itself searches them by brute force.

    Returns:
        `"tables"`; `"bytes"` of all tables in `"float32"` and as they are
        stored; and, unless the data are gone, `"test"` with the losses by
        task, and with two stages the metrics of retrieval, each a pair of
        `"float32"` and the other.

    Raises:
        ExportError: A table has numbers that cannot be stored so.
    """
    two_stages = index is not None
    before = _measured(run, ranker, two_stages)
    sizes = compact_tables(ranker, tables)
    if index is not None and isinstance(ranker, TwoTower):
        by_force = index_inside(index) == BRUTE_FORCE
        sizes += compact_retrieval(ranker.retrieval, tables, by_force)
    cost: JsonObject = {
        "tables": tables,
        "bytes": {FLOAT32: sizes.before, tables: sizes.after},
    }
    if before is not None:
        after = _measured(run, ranker, two_stages)
        assert after is not None, "the data were there before"
        cost["test"] = {
            name: {FLOAT32: value, tables: after[name]}
            for name, value in before.items()
        }
    return cost


def _measured(
    run: Run, ranker: Ranker, two_stages: bool
) -> dict[str, float | None] | None:
    """Metrics on the test split by name, `None` where there are no data."""
    if not run.config.is_file():
        return None
    config = run.read_config()
    if config.data != "synthetic" and not Path(config.data).is_dir():
        return None
    try:
        dataset = load(config.data, streaming=config.streaming)
        ranker.check_fits(dataset)
        if config.finds_by_validation:
            dataset = dataset.with_validation_in_training()
        rows = dataset.split("test")
        of_tasks, retrieved = {}, {}
        if ranker.has_trained_tasks:
            measuring = Measuring.of(ranker, config, dataset.schema)
            truth = rows[dataset.schema.truth_columns]
            scores = scores_of(ranker, rows)
            of_tasks = measuring.measure(scores, truth)["tasks"]
        if two_stages:
            retrieved = measure_retrieval(ranker, dataset, "test", config)
    except DataError as error:
        warnings.warn(
            f"the tables' cost is not measured: {error}", stacklevel=2
        )
        return None
    metrics = {
        f"loss of {task}": metrics["loss"] for task, metrics in of_tasks.items()
    }
    for name in (f"recall@{config.metrics_k}", f"ndcg@{config.metrics_k}"):
        if retrieved:
            metrics[f"{name} of retrieval"] = retrieved["retrieval"][name]
    return metrics


def described(folder: Path) -> Iterator[str]:
    """Says what the tables of an exported model cost, line by line.

    Args:
        folder: Folder of the model; nothing is said of one in float32.
    """
    file = folder / TABLES_FILE
    if not file.is_file():
        return
    cost: JsonMapping = read_json(file)
    tables, sizes = cost["tables"], cost["bytes"]
    before, after = sizes[FLOAT32], sizes[tables]
    yield (
        f"Tables of {after / 1e6:.2f} MB in {tables}, "
        f"{before / max(after, 1):.2f} times smaller than in {FLOAT32}"
    )
    for name, values in cost.get("test", {}).items():
        old, new = values[FLOAT32], values[tables]
        if old is None or new is None:
            continue  # No row counts.
        change = f" ({new / old - 1:+.3%})" if old else ""
        yield (
            f"Test {name}: {new:.6f} in {tables}, "
            f"{old:.6f} in {FLOAT32}{change}"
        )
