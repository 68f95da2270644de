"""Makes the model of the demonstration: `python -m website.demo.model`.

Generated data of MovieLens-100K's size, a gate with a budget, both stages as
ONNX, and what Python recommends, which is compared with the browser.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
from keras import ops

import recsys
from recsys.data import Dataset
from recsys.data.split_dataset import SPLITS
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from website.demo.graphs import CANDIDATES
from website.demo.graphs import retrieval_graph
from website.demo.graphs import with_inputs

NUM_USERS, NUM_ITEMS, NUM_ROWS = 943, 1682, 100_000
# Who is compared with the browser, and at which numbers of experts per row.
COMPARED = ((0, 1.0), (17, 2.0), (17, 8.0), (942, 3.5))
TRAINING = {
    "gate": "budget",
    "num_experts": 8,
    "k": 2,
    "embedding_dim": 16,
    "expert_units": [32],
    "head_units": [16],
    "retrieval": True,
    "retrieval_dim": 16,
    "learning_rate": 0.003,
    "batch_size": 512,
}
MOST_BYTES = 5 * 2**20


def build(out: Path, work: Path, num_rows: int, epochs: int) -> None:
    """Writes the files of the demonstration.

    These are `retrieval.onnx` (from the number of a user to the nearest items),
    `ranker.onnx` (from rows and a budget to predictions and weights of
    experts), `demo.json` (users' ages, items' ids) and `expected.json`.

    Args:
        out: Folder to write; replaced.
        work: Folder of the data and the run; replaced.
        num_rows: Rows of the generated data.
        epochs: Most epochs of the training.

    Raises:
        ValueError: The files have more than 5 MiB.
    """
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    dataset = recsys.synthetic(num_rows, NUM_USERS, NUM_ITEMS)
    dataset.write(work / "data")
    recsys.train(
        {
            **TRAINING,
            "epochs": epochs,
            "data": str(work / "data"),
            "out": str(work / "run"),
        }
    )
    recsys.export(
        work / "run", work / "onnx", format="onnx", expert_weights=True
    )
    ranker = onnx.load(work / "onnx" / "1" / "model.onnx")
    onnx.save(with_inputs(ranker), out / "ranker.onnx")
    model = recsys.load_ranker(work / "run")
    users = users_of(dataset)
    queries = query_vectors(model, users)
    vectors = model.retrieval.vectors
    onnx.save(retrieval_graph(queries, vectors), out / "retrieval.onnx")
    items = model.vocabularies["item"].values.tolist()
    ages = [None if np.isnan(age) else age for age in users["age"]]
    write_json(out / "demo.json", {"ages": ages, "items": items})
    expected = [
        recommended(work, users, items, queries, vectors, user, budget)
        for user, budget in COMPARED
    ]
    write_json(out / "expected.json", {"recommended": expected})
    size = sum(file.stat().st_size for file in out.iterdir())
    if size > MOST_BYTES:
        raise ValueError(
            f"the files must have at most {MOST_BYTES} bytes. Received: {size}"
        )


def users_of(dataset: Dataset) -> pd.DataFrame:
    """Returns a row for each user with the age, NaN where no row has it."""
    rows = pd.concat([dataset.split(name) for name in SPLITS])
    ages = rows.groupby("user")["age"].first().reindex(range(NUM_USERS))
    return ages.astype("float32").reset_index()


def query_vectors(model: Any, users: pd.DataFrame) -> np.ndarray:
    """Returns what items are retrieved with, float32 `(num_users, dim)`."""
    inputs = {
        name: model.fitted[name].encode(users[name])
        for name in model.query_names
    }
    return np.asarray(ops.convert_to_numpy(model.query_vectors(inputs)))


def recommended(
    work: Path,
    users: pd.DataFrame,
    items: list[int],
    queries: np.ndarray,
    vectors: np.ndarray,
    user: int,
    budget: float,
) -> JsonObject:
    """Returns what Python recommends to a user, the best ten first."""
    similarities = queries[user] @ vectors.T
    nearest = np.argsort(-similarities, kind="stable")[:CANDIDATES]
    rows = pd.DataFrame(
        {
            "user": user,
            "item": np.asarray(items)[nearest],
            "age": users["age"][user],
        }
    )
    rows.to_parquet(work / "rows.parquet")
    out = work / "scored.parquet"
    recsys.predict(work / "run", work / "rows.parquet", out, budget=budget)
    scored = pd.read_parquet(out)
    scored["score"] = scored["watch"] ** 0.7 * scored["rating"]
    best = scored.sort_values("score", ascending=False, kind="stable").head(10)
    columns = ("item", "score", "watch", "rating")
    lists = {name: best[name].tolist() for name in columns}
    return {"user": user, "budget": budget, **lists}


def main() -> None:
    """Reads the arguments and builds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=NUM_ROWS)
    parser.add_argument("--epochs", type=int, default=10)
    given = parser.parse_args()
    build(given.out, given.work, given.rows, given.epochs)


if __name__ == "__main__":
    main()
