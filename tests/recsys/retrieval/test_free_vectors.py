"""Free vectors of ids, and popularity where items are scored."""

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.api.compact_export import TABLES_FILE
from recsys.api.export_two_stage import export_two_stage
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.files.json_files import read_json
from recsys.models.build import build_model
from recsys.models.compact_rows import CompactRows
from recsys.models.compact_tables import compact_retrieval
from recsys.models.id_embedding import IdEmbedding
from recsys.models.two_tower import TwoTower
from recsys.private_names import table_of
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.retrieval.retrieval import Retrieval
from recsys.runs.run import Run
from recsys.training.batches import create_batches
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config
from tests.made_once import made_once
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.stored import stored_shapes

Fields = Callable[..., dict[str, Any]]
FREE = {"retrieval_correction": "scores", "retrieval_ids": "vectors"}


def built(
    fields: Fields, dataset: Dataset, **changes: Any
) -> tuple[TwoTower, ResolvedConfig]:
    given = TrainConfig(**fields(Path("out"), **FREE | changes))
    config = resolve_config(given, dataset.schema)
    model = build_model(config, dataset)
    assert isinstance(model, TwoTower)
    return model, config


def free(ranker: TwoTower, name: str) -> Any:
    """What is added for each id, of the numbers from 0."""
    table = ranker.retrieval.id_vectors[name].embeddings
    return ops.convert_to_numpy(table) * np.sqrt(ranker.retrieval.dim)


def only_ids(films: Dataset) -> Dataset:
    """Films of which nothing but the ids is known."""
    schema = Schema("films", {"user": "id", "item": "id"}, {"watch": "binary"})
    names = ["user", "item", "watch"]
    splits = {name: films.split(name)[names] for name in films.splits}
    return Dataset(schema, splits)


@pytest.mark.sampled(2)
def test_a_vector_is_what_the_tower_makes_of_the_rest_and_the_ids(
    fields: Fields, films: Dataset
) -> None:
    ranker, _ = built(fields, films)
    inputs = ranker.encode(films.split("test"))
    other = inputs | {"user": inputs["user"][::-1].copy()}
    queries = [
        ops.convert_to_numpy(ranker.query_vectors(each))
        for each in (inputs, other)
    ]
    vectors = free(ranker, "user")
    np.testing.assert_allclose(
        (queries[0] - queries[1])[:, :-1],
        vectors[inputs["user"]] - vectors[other["user"]],
        atol=1e-5,
    )
    assert np.abs(queries[0] - queries[1]).max() > 0.1


@pytest.mark.sampled(2)
def test_scores_are_products_and_how_popular_items_are(
    fields: Fields, films: Dataset
) -> None:
    data = only_ids(films)
    ranker, _ = built(fields, data)
    update_index(ranker)
    inputs = ranker.encode(data.split("test"))
    found = ops.convert_to_numpy(ranker.query_vectors(inputs))
    counts = data.split("train")["item"].value_counts(normalize=True)
    ids = ranker.vocabularies["item"].values.tolist()
    expected = free(ranker, "user")[inputs["user"]] @ free(ranker, "item")[1:].T
    expected += np.log(counts[ids].to_numpy())
    np.testing.assert_allclose(
        found @ ranker.retrieval.vectors.T, expected, atol=1e-5
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("correction", ["training", "scores"])
def test_the_loss_is_that_of_the_batch_and_of_the_norms(
    fields: Fields, films: Dataset, correction: str
) -> None:
    data = only_ids(films)
    ranker, config = built(
        fields,
        data,
        retrieval_correction=correction,
        retrieval_weight=0.5,
        retrieval_penalty=0.3,
        unknown_rate=0.0,
    )
    inputs, _, _ = create_batches(data.split("train"), ranker, config, None)[0]
    ranker(inputs, training=True)
    (loss,) = ranker.losses
    numbers, weights = inputs["item"], inputs[ROW_WEIGHTS]
    queries = free(ranker, "user")[inputs["user"]].astype(float)
    items = free(ranker, "item")[numbers].astype(float)
    logits = queries @ items.T
    if correction == "training":
        counts = data.split("train")["item"].value_counts(normalize=True)
        ids = ranker.vocabularies["item"].values[numbers - 1]
        logits -= np.log(counts[ids].to_numpy())
    same = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    logits[same] = -np.inf
    losses = np.log(np.exp(logits).sum(axis=1)) - np.diag(logits)
    losses += 0.3 * ((queries**2).sum(axis=1) + (items**2).sum(axis=1))
    expected = 0.5 * (weights @ losses) / weights.sum()
    np.testing.assert_allclose(ops.convert_to_numpy(loss), expected, rtol=1e-5)


@pytest.mark.sampled(2)
def test_only_vectors_that_were_looked_up_change(
    fields: Fields, films: Dataset
) -> None:
    ranker, config = built(
        fields, films, unknown_rate=0.0, table_optimizer="lazy-adam"
    )
    train = films.split("train")
    users = sorted(train["user"].unique())
    train = train[train["user"].isin(users[:5])]
    before = free(ranker, "user")
    compile_model(ranker, config)
    batches = create_batches(train, ranker, config, None)
    ranker.fit(*batches[0][:2], batch_size=64, verbose=0)
    moved = np.abs(free(ranker, "user") - before).max(axis=1) > 0
    looked_up = np.unique(batches[0][0]["user"])
    assert 0 < len(looked_up) < len(moved)
    assert set(np.flatnonzero(moved)) == set(looked_up)


def test_an_item_without_a_row_counts_as_the_rarest() -> None:
    retrieval = Retrieval("item", [], 3, {}, dim=2, correction="scores")
    retrieval.build((None, 1), (None, 1))
    retrieval.sampling.assign(np.array([0.1, 0.6, 0.0, 0.3], np.float32))
    vectors = retrieval.item_vectors(
        np.ones((4, 1), np.float32), np.arange(4, dtype=np.int32)
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(vectors)[:, 2],
        np.log([0.3, 0.6, 0.3, 0.3]),
        rtol=1e-6,
    )


@pytest.fixture(scope="module")
def free_run(
    fields: Fields,
    films: Dataset,
    ids: IdKinds,
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run with free vectors, on all features or on integer ids alone.

    TensorFlow trains the latter itself, and exports both.
    """
    data = films if ids.texts else only_ids(films)

    def train(folder: Path) -> None:
        data.write(folder / "data")
        changes = FREE | {"data": str(folder / "data"), "epochs": 6}
        changes |= {"learning_rate": 0.01}
        train_it = train_quickly if ids.texts else recsys.train
        train_it(fields(folder / "run", **changes))

    return made_once(tmp_path_factory, f"free-{ids.name}", train) / "run"


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_run_finds_what_is_watched_and_is_what_is_saved(
    free_run: Path, films: Dataset, ids: IdKinds
) -> None:
    run = Run(free_run)
    measured = run.read_metrics()["test"]["retrieval"]
    assert measured["recall@5"] > 0.3  # By chance 0.15.
    again = recsys.evaluate(free_run, free_run.parent / "data")["retrieval"]
    assert again["ndcg@5"] == pytest.approx(measured["ndcg@5"])
    ranker = run.load_two_tower()
    saved = ranker.retrieval.vectors
    assert saved.shape == (30, 65)
    update_index(ranker)
    np.testing.assert_allclose(ranker.retrieval.vectors, saved, atol=1e-5)
    found = recsys.recommend(free_run, ids.user(4), top=5, score="retrieval")
    train = recsys.data.load(str(free_run.parent / "data")).split("train")
    inputs = ranker.encode(train[train["user"] == ids.user(4)].tail(1))
    (query,) = ops.convert_to_numpy(ranker.query_vectors(inputs))
    np.testing.assert_allclose(
        found["score"], np.sort(saved @ query)[:-6:-1], rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="starts processes of its own; once is enough",
)
def test_both_stages_are_exported_without_the_items_table(
    free_run: Path, ids: IdKinds, tmp_path: Path
) -> None:
    """With compact tables in one of the two runs."""
    kind = "int8" if ids.texts else "float32"
    # What was written recommends what the model does, or the export fails.
    export_two_stage(
        free_run,
        tmp_path / "served",
        score="watch",
        top=4,
        candidates=12,
        tables=kind,
    )
    folder = tmp_path / "served" / "1"
    shapes = stored_shapes(folder)
    retrieval = Run(free_run).load_two_tower().retrieval
    tables = {
        name: [*layer.embeddings.shape]
        for name, layer in retrieval.id_vectors.items()
    }
    assert tables["user"] in shapes
    assert tables["item"] not in shapes
    if kind == "float32":
        assert not (folder / TABLES_FILE).exists()
        return
    integers = stored_shapes(folder, "int8")
    assert tables["user"] in integers
    assert [1, 30, 65] in integers  # A block of all items.
    assert tables["user"] not in stored_shapes(folder, "float32")
    cost = read_json(folder / TABLES_FILE)
    assert {"loss of watch", "recall@5 of retrieval"} < cost["test"].keys()
    assert cost["bytes"]["int8"] < cost["bytes"]["float32"] / 2


def test_an_index_that_holds_floats_is_not_rounded() -> None:
    vectors = {"user": IdEmbedding(9, 4)}
    retrieval = Retrieval("item", [], 6, {}, dim=4, vectors=vectors)
    retrieval.build((None, 0), (None, 3))
    catalogue = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    retrieval.update_index(catalogue)
    sizes = compact_retrieval(retrieval, "float16", items=False)
    assert (sizes.before, sizes.after) == (4 * 4 * 9, 2 * 4 * 9)
    np.testing.assert_array_equal(retrieval.vectors, catalogue)


@pytest.mark.parametrize("name", ["user", "item"])
def test_compact_free_vectors_are_those_that_numpy_returns(name: str) -> None:
    """Those of the query; the items' own are in the catalogue alone."""
    vectors = {"user": IdEmbedding(9, 4), "item": IdEmbedding(7, 4)}
    retrieval = Retrieval("item", [], 6, {}, dim=4, vectors=vectors)
    retrieval.build((None, 0), (None, 0))
    catalogue = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    retrieval.update_index(catalogue)
    held = ops.convert_to_numpy(table_of(vectors[name]))
    sizes = compact_retrieval(retrieval, "int8")
    assert (sizes.before, sizes.after) == (4 * 4 * 15, (4 + 4) * 15)
    rows = CompactRows.of(catalogue, "int8").floats()
    np.testing.assert_array_equal(retrieval.vectors, rows)
    ids = np.array([0, 3, 6], np.int32)
    looked_up = ops.convert_to_numpy(retrieval.id_vectors[name](ids))
    if name == "user":
        held = CompactRows.of(held, "int8").floats()
        np.testing.assert_allclose(
            ops.convert_to_numpy(retrieval.query_vectors(None, ids)),
            2 * held[ids],
            rtol=1e-6,
        )
    np.testing.assert_allclose(looked_up, held[ids], rtol=1e-6)


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_run_that_goes_on_knows_further_users(
    free_run: Path, fields: Fields, ids: IdKinds, tmp_path: Path
) -> None:
    data = recsys.data.load(str(free_run.parent / "data"))
    more = data.split("train").copy()
    more.loc[more.index[::20], "user"] = ids.user(777)
    splits: dict[str, pd.DataFrame] = {**data.splits, "train": more}
    replace(data, splits=splits).write(tmp_path / "data")
    given = fields(
        tmp_path / "run",
        data=str(tmp_path / "data"),
        warm_start=str(free_run),
        epochs=1,
        **FREE,
    )
    recsys.train(given)
    ranker, before = (
        Run(folder).load_two_tower() for folder in (tmp_path / "run", free_run)
    )
    assert len(free(ranker, "user")) == len(free(before, "user")) + 1
    with pytest.raises(ValueError, match="retrieval_ids"):
        recsys.train(
            given | {"out": str(tmp_path / "no"), "retrieval_ids": "embeddings"}
        )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("retrieval_correction", "training, scores"),
        ("retrieval_ids", "embeddings, vectors"),
    ],
)
def test_names_that_are_unknown(fields: Fields, name: str, others: str) -> None:
    message = f"`{name}` must be one of {others}. Received: {name}='other'"
    with pytest.raises(ValueError, match=message):
        TrainConfig(**fields(Path("out"), **{name: "other"}))
