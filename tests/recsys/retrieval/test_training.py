import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.measuring.curves import read_history
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.models.build import build_model
from recsys.models.two_tower import TwoTower
from recsys.retrieval.losses import create_loss
from recsys.retrieval.negatives import Items
from recsys.retrieval.negatives import Negatives
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.runs.run import Run
from recsys.training.batches import create_batches
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.resolve_config import resolve_config
from tests.made_once import made_once
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.id_kinds import of_one_kind
from tests.recsys.retrieval.id_kinds import of_texts

Fields = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.usefixtures("compiled_calls")


def resolved(
    fields: Fields, dataset: Dataset, **changes: Any
) -> ResolvedConfig:
    config = TrainConfig(**fields(Path("out"), **changes))
    return resolve_config(config, dataset.schema)


def built(config: ResolvedConfig, dataset: Dataset) -> TwoTower:
    model = build_model(config, dataset)
    assert isinstance(model, TwoTower)
    return model


def numpy_loss(ranker: TwoTower, batch: dict[str, Any], weights: Any) -> float:
    """The definition, from the towers' vectors and the rows themselves."""
    queries = ops.convert_to_numpy(ranker.query_vectors(batch))
    items = ops.convert_to_numpy(ranker.item_vectors(batch))
    numbers = batch["item"]
    shares = ops.convert_to_numpy(ranker.retrieval.sampling)[numbers]
    logits = queries.astype(float) @ items.T.astype(float) - np.log(shares)
    hits = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    logits[hits] = -np.inf
    losses = np.log(np.exp(logits).sum(axis=1)) - np.diag(logits)
    for name, layer in ranker.retrieval.id_vectors.items():
        vectors = ops.convert_to_numpy(layer.embeddings)[batch[name]]
        norms = (vectors.astype(float) ** 2).sum(axis=1)
        losses += ranker.retrieval.penalty * ranker.retrieval.dim * norms
    return float((weights * losses).sum() / weights.sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("label", ["watch", "all"])
def test_the_loss_of_the_rows_that_count_is_added(
    fields: Fields, films: Dataset, label: str
) -> None:
    config = resolved(
        fields,
        films,
        retrieval_weight=0.5,
        retrieval_label=label,
        unknown_rate=0.0,
    )
    ranker = built(config, films)
    inputs, labels, _ = create_batches(
        films.split("train"), ranker, config, None
    )[0]
    ranker(inputs, training=True)
    (loss,) = ranker.losses
    watched = labels["watch"][:, 0]
    weights = watched if label == "watch" else np.ones_like(watched)
    expected = 0.5 * numpy_loss(ranker, inputs, weights)
    np.testing.assert_allclose(ops.convert_to_numpy(loss), expected, rtol=1e-5)


@pytest.mark.once("torch")
def test_towers_have_the_embeddings_that_no_task_owns(
    fields: Fields, films: Dataset
) -> None:
    config = resolved(
        fields, films, architecture="stem", retrieval_ids="embeddings"
    )
    ranker = built(config, films)
    inputs = ranker.encode(films.split("test"))
    before = ops.convert_to_numpy(ranker.query_vectors(inputs))
    table = ranker.embeddings["user"].embeddings
    values = ops.convert_to_numpy(table.value).copy()
    shared = values.shape[1] - ranker.table_widths["user"]
    values[:, :shared] += 1.0
    table.assign(values)
    after = ops.convert_to_numpy(ranker.query_vectors(inputs))
    np.testing.assert_array_equal(after, before)
    values[:, shared:] += 1.0
    table.assign(values)
    assert (ops.convert_to_numpy(ranker.query_vectors(inputs)) != before).any()


@pytest.mark.sampled(2)
def test_what_counts_nothing_adds_nothing(
    fields: Fields, films: Dataset
) -> None:
    config = resolved(fields, films)
    ranker = built(config, films)
    batch, _, _ = create_batches(films.split("train"), ranker, config, None)[0]
    ranker(batch | {ROW_WEIGHTS: np.zeros(64, np.float32)}, training=True)
    assert [float(ops.convert_to_numpy(one)) for one in ranker.losses] == [0.0]


def test_rows_count_by_their_weight(fields: Fields, films: Dataset) -> None:
    heavy = films.split("train").assign(weight=2.0)
    config = resolved(fields, films)
    ranker = built(config, films)
    inputs, labels, _ = create_batches(heavy, ranker, config, "weight")[0]
    np.testing.assert_array_equal(
        inputs[ROW_WEIGHTS], 2 * labels["watch"][:, 0]
    )


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
def test_inference_has_no_retrieval_loss(
    fields: Fields, films: Dataset
) -> None:
    ranker = built(resolved(fields, films), films)
    inputs = ranker.encode(films.split("test"))
    assert list(ranker(inputs)) == ["watch", "rating"]
    assert ranker.losses == []


@pytest.mark.sampled(2)
def test_the_item_is_not_what_a_query_is_told(
    fields: Fields, films: Dataset
) -> None:
    """A history that attends to the item would tell which one it is."""
    ranker = built(resolved(fields, films), films)
    assert ranker.query_names == ["user", "age", "history"]
    inputs = ranker.encode(films.split("test"))
    other = inputs | {"item": inputs["item"][::-1].copy()}
    queries = ranker.query_vectors(inputs), ranker.query_vectors(other)
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, queries))


@pytest.mark.traced_once("jax")
@pytest.mark.slow
@pytest.mark.sampled(2)
@of_one_kind("table_optimizer", ["adam", "lazy-adam"])
def test_the_tables_learn_from_the_retrieval_alone(
    fields: Fields,
    tmp_path: Path,
    table_optimizer: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = fields(
        tmp_path / "run",
        task_weights={"watch": 1e-12},
        retrieval_ids="embeddings",
        table_optimizer=table_optimizer,
        learning_rate=0.05,
        epochs=8,
    )
    metrics = recsys.train(config)["test"]["retrieval"]
    # Each user watches 10 of the 30 films, and one in ten is not known.
    assert metrics["recall@5"] > 0.3
    printed = capsys.readouterr().out
    assert "item tower   genres   the same in all rows of an item" in printed
    assert "  val_retrieval_ndcg@5 " in printed
    losses = read_history(tmp_path / "run" / "history.csv")
    retrieval = losses["retrieval_loss"]
    assert retrieval.iloc[-1] < 0.9 * retrieval.iloc[0]
    # All that is left of the loss, but for 1e-12 of the tasks'.
    others = losses["loss"] - losses["total_loss"]
    np.testing.assert_allclose(others, retrieval, rtol=1e-4)


@pytest.mark.sampled(2)
def test_under_mixed_precision(fields: Fields, films: Dataset) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        config = resolved(fields, films, unknown_rate=0.0)
        ranker = built(config, films)
        inputs, *_ = create_batches(films.split("train"), ranker, config, None)[
            0
        ]
        ranker(inputs, training=True)
        (loss,) = ranker.losses
        expected = numpy_loss(ranker, inputs, inputs[ROW_WEIGHTS])
        np.testing.assert_allclose(
            ops.convert_to_numpy(loss), expected, rtol=1e-4
        )
    finally:
        keras.config.set_dtype_policy(before)


@pytest.fixture
def own_run(
    fields: Fields,
    ids: IdKinds,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run that this backend has trained; not to be changed."""
    if keras.backend.backend() != "tensorflow":
        run: Path = request.getfixturevalue("retrieving_run")
        return run
    return made_once(
        tmp_path_factory,
        f"own-{ids.name}",
        lambda folder: recsys.train(fields(folder, select="tasks")),
    )


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_run_retrieves_what_is_watched(own_run: Path) -> None:
    metrics = json.loads((own_run / "metrics.json").read_text())
    measured = metrics["test"]["retrieval"]
    assert measured["items"] == 30
    assert 0 < measured["ndcg@5"] < measured["recall@5"]
    assert measured["recall@5"] > 0.3  # By chance 0.15.


@pytest.mark.sampled(2)
@pytest.mark.slow
def test_the_index_is_saved_and_up_to_date(own_run: Path) -> None:
    ranker = Run(own_run).load_two_tower()
    saved = ranker.retrieval.vectors
    assert np.abs(saved).min(axis=1).max() > 0
    update_index(ranker)
    np.testing.assert_allclose(ranker.retrieval.vectors, saved, atol=1e-5)
    query = ranker.retrieval.vectors[:1]
    scores, numbers = map(ops.convert_to_numpy, ranker.retrieval.index(query))
    order = np.argsort(-(saved @ query[0]))[:10]
    np.testing.assert_array_equal(numbers[0], order + 1)
    np.testing.assert_allclose(scores[0], (saved @ query[0])[order], rtol=1e-4)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("exclude", [False, True])
def test_metrics_against_numpy(
    retrieving_run: Path, films: Dataset, exclude: bool
) -> None:
    ranker = Run(retrieving_run).load_two_tower()
    config = Run(retrieving_run).read_config()
    config = replace(config, retrieval_exclude_seen=exclude)
    measured = measure_retrieval(ranker, films, "test", config, k=4)
    train, test = films.split("train"), films.split("test")
    # What was watched before the test.
    before = pd.concat([train, films.split("validation")])
    watched = test[test["watch"] == 1]
    queries = ops.convert_to_numpy(ranker.query_vectors(ranker.encode(watched)))
    scores = queries @ ranker.retrieval.vectors.T
    films_by_number = ranker.vocabularies["item"].values.tolist()
    recall, ndcg = [], []
    for row, (_, given) in enumerate(watched.iterrows()):
        had = before[(before["user"] == given["user"]) & (before["watch"] == 1)]
        banned = set(had["item"]) - {given["item"]} if exclude else set()
        ranked = [
            films_by_number[place]
            for place in np.argsort(-scores[row])
            if films_by_number[place] not in banned
        ][:4]
        found = given["item"] in ranked
        recall.append(float(found))
        rank = ranked.index(given["item"]) + 1 if found else np.inf
        ndcg.append(1 / np.log2(1 + rank))
    found = measured["retrieval"]
    assert found["recall@4"] == pytest.approx(np.mean(recall))
    assert found["ndcg@4"] == pytest.approx(np.mean(ndcg))
    assert found["rows"] == len(watched)
    assert found["users"] == watched["user"].nunique()
    assert found["items"] == 30
    # Whom a model does not tell apart it recommends what is popular.
    counts = train[train["watch"] == 1]["item"].value_counts()
    popular = np.array([counts.get(film, 0) for film in films_by_number])
    hits = []
    for _, given in watched.iterrows():
        had = before[(before["user"] == given["user"]) & (before["watch"] == 1)]
        banned = set(had["item"]) - {given["item"]} if exclude else set()
        left = np.array([film not in banned for film in films_by_number])
        own = int(counts.get(given["item"], -1))
        above = int((popular[left] > own).sum())
        tied = int((popular[left] == own).sum())
        known = given["item"] in films_by_number
        hits.append(known * np.clip((4 - above) / max(1, tied), 0, 1))
    assert found["popular"]["recall@4"] == pytest.approx(np.mean(hits))


@pytest.mark.once("torch")
@pytest.mark.slow
def test_streamed_data_have_the_same_metrics(
    retrieving_run: Path, films: Dataset, films_folder: Path
) -> None:
    ranker = Run(retrieving_run).load_two_tower()
    config = Run(retrieving_run).read_config()
    config = replace(config, retrieval_exclude_seen=True)
    streamed = StreamedDataset.read(films_folder)
    assert measure_retrieval(
        ranker, streamed, "test", config
    ) == measure_retrieval(ranker, films, "test", config)


@pytest.mark.once("torch")
@pytest.mark.slow
@of_texts
def test_streamed_training_is_that_of_rows_in_memory(
    fields: Fields, tmp_path: Path
) -> None:
    metrics = [
        recsys.train(fields(tmp_path / str(given), epochs=2, streaming=given))
        for given in (False, True)
    ]
    retrieved = [one["test"]["retrieval"] for one in metrics]
    assert retrieved[0].keys() == retrieved[1].keys()
    assert retrieved[1]["rows"] == retrieved[0]["rows"]


@pytest.mark.sampled(2)
@pytest.mark.slow
def test_evaluate_says_what_training_said(
    own_run: Path, films_folder: Path
) -> None:
    trained = Run(own_run).read_metrics()["test"]["retrieval"]
    again = recsys.evaluate(own_run, films_folder)["retrieval"]
    for part in ("popular", "diversity"):
        assert again.pop(part) == pytest.approx(trained.pop(part))
    assert again == pytest.approx(trained)


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_run_that_goes_on_knows_further_items(
    retrieving_run: Path,
    fields: Fields,
    films: Dataset,
    ids: IdKinds,
    tmp_path: Path,
) -> None:
    more = films.split("train").copy()
    more.loc[::20, "item"] = ids.item(77)
    more.loc[::20, "genres"] = more.loc[::20, "genres"].map(lambda _: ["g9"])
    grown = replace(films, splits={**films.splits, "train": more})
    grown.write(tmp_path / "data")
    given = fields(
        tmp_path / "run",
        data=str(tmp_path / "data"),
        warm_start=str(retrieving_run),
        epochs=1,
    )
    metrics = recsys.train(given)
    assert metrics["test"]["retrieval"]["items"] == 31
    ranker = Run(tmp_path / "run").load_two_tower()
    item = ranker.retrieval.items(np.array([31]))
    genre = ranker.vocabularies["genres"].values.tolist()[
        int(item["genres"][0, 0]) - 1
    ]
    assert genre == "g9"


@pytest.mark.once("torch")
def test_a_task_of_the_name_of_the_loss_is_refused(
    fields: Fields, films: Dataset
) -> None:
    tasks = {"retrieval": "binary"}
    named = replace(films.schema, tasks=tasks)
    config = TrainConfig(**fields(Path("out")))
    with pytest.raises(
        ValueError, match=r"a task of that name.*retrieval=True"
    ):
        resolve_config(config, named)


@pytest.mark.once("torch")
def test_labels_that_cannot_be(fields: Fields, films: Dataset) -> None:
    with pytest.raises(ValueError, match=r"'watch'\] or 'all'.*'rating'"):
        resolved(fields, films, retrieval_label="rating")


@pytest.mark.once("torch")
def test_seen_items_need_a_user(fields: Fields, films: Dataset) -> None:
    schema = replace(
        films.schema,
        features={
            **films.schema.features,
            "user": {"type": "hash", "buckets": 8},
        },
    )
    nobody = replace(films, schema=schema)
    config = resolved(fields, nobody, retrieval_exclude_seen=True)
    ranker = built(config, nobody)
    with pytest.raises(DataError, match="an id feature that is the 'user'"):
        measure_retrieval(ranker, nobody, "test", config)


@pytest.mark.once("torch")
def test_seen_items_are_left_out_where_there_is_a_user(
    fields: Fields, films: Dataset
) -> None:
    features = {**films.schema.features, "user": {"type": "hash", "buckets": 8}}
    nobody = replace(films, schema=replace(films.schema, features=features))
    for data, given, expected in (
        (films, None, True),
        (nobody, None, False),
        (films, False, False),
        (nobody, True, True),
    ):
        config = resolved(fields, data, retrieval_exclude_seen=given)
        assert config.retrieval_exclude_seen is expected


@pytest.mark.once("torch")
def test_many_items_are_scored_few_rows_at_a_time(
    fields: Fields, films: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolved(fields, films)
    ranker = built(config, films)
    update_index(ranker)
    whole = measure_retrieval(ranker, films, "test", config)
    module = "recsys.measuring.retrieval_metrics._SCORES"
    monkeypatch.setattr(module, 3 * 30)
    blocks = measure_retrieval(ranker, films, "test", config)
    found, expected = blocks["retrieval"], whole["retrieval"]
    for part in ("popular", "diversity"):
        assert found.pop(part) == pytest.approx(expected.pop(part))
    assert found == pytest.approx(expected)


@pytest.mark.sampled(2)
def test_softmax_of_a_batch_is_what_the_layer_returns(
    fields: Fields, films: Dataset
) -> None:
    given = {"retrieval_ids": "embeddings", "retrieval_correction": "training"}
    ranker = built(resolved(fields, films, **given), films)
    shape = ranker.retrieval.query_tower.input_shape
    queries = np.ones((3, shape[-1]), np.float32)
    items = np.eye(
        3, ranker.retrieval.item_tower.input_shape[-1], dtype=np.float32
    )
    numbers = np.array([1, 2, 2], np.int32)
    shares = ops.take(ranker.retrieval.sampling, numbers)
    candidates = Negatives(ranker.retrieval.num_items, 0).candidates(
        ranker.retrieval.query_tower(queries),
        Items(
            ranker.retrieval.item_tower(items),
            ops.convert_to_tensor(numbers),
            -ops.log(shares),
        ),
        None,
    )
    expected = create_loss("softmax", {}).losses(candidates, 30)
    weights = np.array([0.0, 1.0, 3.0], np.float32)
    losses = ops.convert_to_numpy(expected)
    received = ranker.retrieval(queries, items, numbers, weights)
    np.testing.assert_allclose(
        ops.convert_to_numpy(received),
        (losses[1] + 3 * losses[2]) / 4,
        rtol=1e-6,
    )
