"""Towers trained by each loss, from the command to the recommendations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import recsys
from recsys.cli import run as command
from recsys.config.retrieval_losses import RETRIEVAL_LOSSES
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.measuring.curves import read_history
from recsys.models.build import build_model
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.training.batches import create_batches
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.resolve_config import resolve_config
from tests.recsys.api.interruptions import interrupt_at
from tests.recsys.retrieval.id_kinds import of_one_kind
from tests.recsys.retrieval.id_kinds import of_texts

Fields = Callable[..., dict[str, Any]]


def built(
    fields: Fields, dataset: Dataset, **changes: Any
) -> tuple[TwoTower, TrainConfig]:
    config = TrainConfig(**fields(Path("out"), **changes))
    config = resolve_config(config, dataset.schema)
    model = build_model(config, dataset)
    assert isinstance(model, TwoTower)
    return model, config


def loss_of_a_batch(
    ranker: TwoTower, config: TrainConfig, films: Dataset
) -> float:
    batches = create_batches(films.split("train"), ranker, config, None)
    ranker(batches[0][0], training=True)
    (loss,) = ranker.losses
    return float(ops.convert_to_numpy(loss))


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("use", ["embeddings", "vectors"])
@pytest.mark.parametrize("correction", ["training", "scores"])
def test_full_softmax_is_that_of_the_scores_of_the_index(
    fields: Fields, films: Dataset, use: str, correction: str
) -> None:
    ranker, config = built(
        fields,
        films,
        retrieval_loss="full-softmax",
        retrieval_ids=use,
        retrieval_correction=correction,
        retrieval_penalty=0.0,
        retrieval_label="all",
        unknown_rate=0.0,
    )
    retrieval = ranker.retrieval
    update_index(ranker)
    batches = create_batches(films.split("train"), ranker, config, None)
    batch = batches[0][0]
    queries = ops.convert_to_numpy(ranker.query_vectors(batch))
    logits = queries.astype(float) @ retrieval.vectors.T.astype(float)
    own = logits[np.arange(len(logits)), batch["item"] - 1]
    expected = (np.log(np.exp(logits).sum(axis=1)) - own).mean()
    received = loss_of_a_batch(ranker, config, films)
    np.testing.assert_allclose(received, expected, rtol=1e-4)


@pytest.mark.sampled(2)
def test_scores_with_a_temperature_are_cosines(
    fields: Fields, films: Dataset
) -> None:
    ranker, _ = built(
        fields,
        films,
        retrieval_loss_options={"temperature": "0.5"},
        retrieval_correction="training",
    )
    inputs = ranker.encode(films.split("test"))
    queries, items = (
        np.linalg.norm(ops.convert_to_numpy(vectors), axis=1)
        for vectors in (
            ranker.query_vectors(inputs),
            ranker.item_vectors(inputs),
        )
    )
    np.testing.assert_allclose(queries, 2.0, rtol=1e-5)
    np.testing.assert_allclose(items, 1.0, rtol=1e-5)


@pytest.mark.traced_once("jax")
@pytest.mark.slow
@pytest.mark.sampled(4)
@of_one_kind("name", list(RETRIEVAL_LOSSES))
def test_towers_learn_by_each_loss(
    fields: Fields, name: str, tmp_path: Path
) -> None:
    options = {"num_negatives": 16, "hard_negatives": 8}
    out = tmp_path / "run"
    recsys.train(
        fields(
            out,
            retrieval_loss=name,
            retrieval_loss_options=options,
            epochs=3,
            learning_rate=0.005,
        )
    )
    ranker = recsys.load_model(out)
    assert isinstance(ranker, TwoTower)
    assert ranker.retrieval.loss.declaration == {
        **ranker.retrieval.loss.declaration,
        **options,
        "type": name,
    }
    losses = read_history(Run(out).history)["retrieval_loss"]
    assert losses.iloc[-1] < losses.iloc[0]


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
def test_drawn_negatives_go_on_where_a_run_was_interrupted(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"retrieval_loss": "mixed-softmax", "epochs": 2}
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    recsys.train(fields(whole.folder, **given))
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=1, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields(parts.folder, **given))
    keras.utils.set_random_seed(99)
    recsys.train(fields(parts.folder, **given), resume=True)
    columns = ["loss", "retrieval_loss"]
    assert read_history(parts.history)[columns].equals(
        read_history(whole.history)[columns]
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--retrieval-loss", "softmx"], "one of softmax, full-softmax"),
        (
            ["--retrieval-loss-option", "calibration=0.5"],
            "`retrieval_loss_options` of softmax must be among",
        ),
        (
            [
                *("--retrieval-loss", "cosine-contrastive"),
                *("--retrieval-correction", "scores"),
            ],
            "whose scores are cosines",
        ),
        (
            ["--retrieval-loss", "bpr", "--tower", "transformer"],
            "must be left out with a sequence tower",
        ),
    ],
)
def test_what_cannot_be_is_an_error_of_one_line(
    films_folder: Path,
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    arguments = ["--data", str(films_folder), "--out", str(out), "--retrieval"]
    assert command(["train", *arguments, *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


@pytest.mark.once("torch")
def test_the_full_softmax_is_for_catalogues_of_its_size(
    fields: Fields, films: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recsys.models.two_tower_retrieval.MOST_ITEMS", 29)
    with pytest.raises(ValueError, match="Received: 30 items"):
        built(fields, films, retrieval_loss="full-softmax")
