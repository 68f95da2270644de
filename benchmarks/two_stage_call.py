"""Times retrieving and ranking in one call, over catalogues of several sizes.

    KERAS_BACKEND=tensorflow python benchmarks/two_stage_call.py \
        --items 4000 100000

`serving.py --parts two-stage` starts it so, for one size after the other.
Prints JSON lines: for each index, what it takes to build, its file, which a
server reads into memory as it is, how hard it looks, and its recall of the 100
best candidates of users that it was not tuned with; for each batch size, the
percentiles of the latency of the whole call, from raw ids to 10 ranked items,
as `recsys serve` makes it, and those of the search by itself. All indexes are
called in turn. With `--rerank`, calls whose lists are made diverse, instead of
indexes.

The ranker has 16 experts, k = 2, and is not trained. That its vectors have a
structure to be found is arranged: the embedding of a user is one of 1,000
tastes and a noise of half their spread, and goes through the query tower. An
item is drawn around the vector of some user, with a noise of half the spread
of these vectors in each of the 32 dimensions, and its length varies by a factor
of exp(0.3 z). The users that ask are others of the same tastes.
"""

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from inference import measure
from keras import ops
from report import report

from recsys import Dataset
from recsys import Schema
from recsys import TrainConfig
from recsys import TwoTower
from recsys.models.build import build_ranker
from recsys.retrieval.rerank import RERANKERS
from recsys.serving.faiss_index import FaissIndex
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import checksum
from recsys.serving.index_file import import_faiss
from recsys.serving.index_file import read_index
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.training.resolve_config import resolve_config

USERS, TASTES, SAMPLE = 10_000, 1_000, 512
TOP, CANDIDATES = 10, 100
SCORE = "watch^0.7 * rating"
SCHEMA = Schema(
    "catalogue",
    {"user": "id", "item": "id"},
    {"watch": "binary", "rating": "regression"},
)


def make_ranker(num_items: int) -> TwoTower:
    """An untrained ranker whose items are near what users ask for."""
    config = resolve_config(
        TrainConfig(
            "catalogue",
            "unused",
            retrieval=True,
            gate="top-k",
            num_experts=16,
            k=2,
            embedding_dim=32,
        ),
        SCHEMA,
    )
    items = np.arange(max(num_items, USERS)) % num_items
    users = np.arange(len(items)) % USERS
    rows = pd.DataFrame({"user": users, "item": items, "watch": 1.0})
    data = Dataset(SCHEMA, {"train": rows.assign(rating=3.0)})
    ranker = build_ranker(config, data)
    assert isinstance(ranker, TwoTower), "with retrieval"
    rng = np.random.default_rng(0)
    table = ranker.embeddings["user"].weights[0]
    tastes = rng.normal(size=(TASTES, table.shape[1]))
    noise = rng.normal(size=table.shape)
    mixed = tastes[rng.integers(0, TASTES, table.shape[0])] + 0.5 * noise
    table.assign(mixed.astype("float32"))
    users_of_items = query_vectors(ranker, np.arange(SAMPLE, USERS))
    drawn = users_of_items[rng.integers(0, len(users_of_items), num_items)]
    spread = 0.5 * users_of_items.std(axis=0)
    lengths = np.exp(0.3 * rng.normal(size=(num_items, 1)))
    vectors = lengths * (drawn + spread * rng.normal(size=drawn.shape))
    ranker.retrieval.update_index(vectors.astype("float32"))
    return ranker


def query_vectors(ranker: TwoTower, users: Any) -> Any:
    rows = pd.DataFrame({"user": users})
    numbers = ranker.fitted["user"].encode(rows["user"])
    return ops.convert_to_numpy(ranker.query_vectors({"user": numbers}))


def write_model(
    ranker: TwoTower,
    folder: Path,
    index: str = "hnsw",
    rerank: str | None = None,
) -> None:
    from recsys.exporting.two_stage import TwoStage
    from recsys.exporting.two_stage_saved_model import write_saved_model
    from recsys.retrieval.formula import Formula

    formula = Formula(SCORE, ["watch", "rating"])
    model = TwoStage(ranker, formula, TOP, CANDIDATES, index, rerank=rerank)
    write_saved_model(model, folder)


def read_indexes(
    ranker: TwoTower, folder: Path, recall: float
) -> dict[str, FaissIndex]:
    """Builds, writes and reads each index, and says what it is like."""
    faiss = import_faiss()

    vectors = ranker.retrieval.vectors
    queries = query_vectors(ranker, np.arange(SAMPLE))
    tuned, asked = np.split(queries, 2)
    exact = faiss.IndexFlatIP(vectors.shape[1])
    exact.add(vectors)
    best = exact.search(asked, CANDIDATES)[1] + 1
    indexes = {}
    for kind, form in FAISS_INDEXES.items():
        start = time.perf_counter()
        index = form.build(vectors)
        built = time.perf_counter() - start
        index.tune(vectors, tuned, CANDIDATES, recall)
        file = folder / kind
        index.write(file)
        indexes[kind] = read_index(file, kind, checksum(file))
        seen = np.zeros((len(asked), 0), np.int32)
        found = indexes[kind].unseen(asked, seen, CANDIDATES)
        hits = [
            np.isin(one, other).mean()
            for one, other in zip(found, best, strict=True)
        ]
        report(
            what="index",
            items=len(vectors),
            index=kind,
            build_seconds=round(built, 1),
            file_mib=round(file.stat().st_size / 2**20, 1),
            vectors_mib=round(vectors.nbytes / 2**20, 1),
            effort=indexes[kind].effort,
            recall=round(float(np.mean(hits)), 4),
            load_average=os.getloadavg()[0],
        )
    return indexes


def report_calls(
    ranker: TwoTower,
    folder: Path,
    indexes: dict[str, FaissIndex],
    batch: int,
    seconds: float,
) -> None:
    """Times the whole call, and the search by itself."""
    from recsys.serving.saved_model_runner import SavedModelRunner
    from recsys.serving.two_stage_runner import TwoStageRunner

    model = SavedModelRunner(folder)
    runners = {BRUTE_FORCE: model} | {
        kind: TwoStageRunner(model, index) for kind, index in indexes.items()
    }
    rng = np.random.default_rng(1)
    nothing = np.full((batch, 1), -(2**63))
    seen = np.zeros((batch, 1), np.int32)

    def call(runner: Any) -> None:
        users = rng.integers(0, SAMPLE, batch)
        runner.run("serving_default", {"user": users, "seen": nothing})

    functions: dict[Any, Any] = {
        ("call", name): lambda runner=runner: call(runner)
        for name, runner in runners.items()
    }
    queries = query_vectors(ranker, np.arange(SAMPLE))
    for kind, index in indexes.items():
        functions["search", kind] = lambda index=index: index.unseen(
            queries[rng.integers(0, SAMPLE, batch)], seen, CANDIDATES
        )
    times = measure(functions, batch, seconds * len(functions))
    for (what, kind), figures in times.items():
        report(
            what=what,
            items=ranker.retrieval.num_items,
            index=kind,
            batch=batch,
            **figures,
            load_average=os.getloadavg()[0],
        )


def report_reranking(
    ranker: TwoTower, folder: Path, batches: list[int], seconds: float
) -> None:
    """Times calls with and without each reranker, in turn."""
    from recsys.serving.saved_model_runner import SavedModelRunner

    runners = {}
    for rerank in (None, *RERANKERS):
        write_model(ranker, folder / f"{rerank}", BRUTE_FORCE, rerank)
        runners[rerank] = SavedModelRunner(folder / f"{rerank}")
    rng = np.random.default_rng(1)
    for batch in batches:
        seen = np.full((batch, 1), -(2**63))
        users = rng.integers(0, SAMPLE, batch)
        asked = {"user": users, "seen": seen}
        functions: dict[Any, Any] = {
            rerank: partial(runner.run, "serving_default", asked)
            for rerank, runner in runners.items()
        }
        times = measure(functions, batch, seconds * len(functions))
        for rerank, figures in times.items():
            report(
                what="rerank",
                items=ranker.retrieval.num_items,
                rerank=rerank,
                batch=batch,
                **figures,
                load_average=os.getloadavg()[0],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", default=[4000], type=int, nargs="+")
    parser.add_argument("--batch", default=[1, 32], type=int, nargs="+")
    parser.add_argument("--recall", default=0.99, type=float, help="to tune to")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rerank", action="store_true")
    options = parser.parse_args()
    for num_items in options.items:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "1"
            ranker = make_ranker(num_items)
            if options.rerank:
                batches, seconds = options.batch, options.seconds
                report_reranking(ranker, folder, batches, seconds)
                continue
            write_model(ranker, folder)
            indexes = read_indexes(ranker, Path(scratch), options.recall)
            for batch in options.batch:
                report_calls(ranker, folder, indexes, batch, options.seconds)


if __name__ == "__main__":
    main()
