"""Regression labels of any unit, through training and all that follows."""

import json
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Dataset
from recsys import Schema
from recsys.runs.run import Run
from tests.recsys.api.interruptions import copied
from tests.recsys.conftest import Settings

pytestmark = pytest.mark.slow

SCHEMA = Schema(
    "shop",
    {"user": "id", "item": "id"},
    {"click": "binary", "price": "regression"},
)


def rows(num_rows: int, seed: int) -> pd.DataFrame:
    """Users click on items of their own half; prices are in the thousands."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 12, (2, num_rows))
    click = (user % 2 == item % 2).astype(float)
    price = 5000.0 + 1000.0 * (item % 5) + 50 * rng.normal(size=num_rows)
    price[::3] = np.nan
    return pd.DataFrame(
        {"user": user, "item": item, "click": click, "price": price}
    )


@pytest.fixture(scope="module")
def shop() -> Dataset:
    splits = {"train": rows(600, 0), "validation": rows(200, 1)}
    return Dataset(SCHEMA, {**splits, "test": rows(200, 2)})


@pytest.fixture(scope="module")
def shop_fields(
    shop: Dataset,
    settings: Callable[..., Settings],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Settings]:
    """Makes the fields of a configuration that trains on the shop."""
    folder = tmp_path_factory.mktemp("data") / "shop"
    shop.write(folder)

    def make(out: Path, **changes: Any) -> Settings:
        fields = {
            "data": str(folder),
            "gate": "softmax",
            "embedding_dim": 8,
            "expert_units": [32],
            "expert_dropout": 0.0,
            "head_units": [],
            "epochs": 8,
            "batch_size": 64,
            "learning_rate": 0.02,
        }
        return settings(out, **fields | changes)

    return make


@pytest.fixture(scope="module")
def train_shop(
    shop_fields: Callable[..., Settings],
) -> Callable[..., dict[str, Any]]:
    """Trains on the shop and returns the metrics."""
    return lambda out, **changes: recsys.train(shop_fields(out, **changes))


@pytest.fixture(scope="module")
def trained(
    shop_fields: Callable[..., Settings],
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a finished run; not to be changed.

    Beside it is "begun", what there was of it in the fourth epoch.
    """
    folder = tmp_path_factory.mktemp("runs") / "shop"
    with copied(folder, {(3, 1): folder.with_name("begun")}):
        train_quickly(shop_fields(folder))
    return folder


@pytest.fixture(scope="module")
def drowned(
    train_shop: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same with the option off."""
    folder = tmp_path_factory.mktemp("runs") / "drowned"
    train_shop(folder, standardize_targets=False)
    return folder


def metrics_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "metrics.json").read_text()))


@pytest.mark.once("torch")
def test_labels_in_the_thousands_do_not_drown_a_binary_task(
    trained: Path, drowned: Path
) -> None:
    tasks = metrics_of(trained)["test"]["tasks"]
    assert tasks["click"]["auc"] > 0.9
    assert metrics_of(drowned)["test"]["tasks"]["click"]["auc"] < 0.75
    assert tasks["price"]["rmse"] < 0.3 * tasks["price"]["constant"]["rmse"]


@pytest.mark.once("torch")
def test_decision_and_definition_of_the_loss(
    trained: Path, shop: Dataset
) -> None:
    assert Run(trained).read_config().standardize_targets is True
    labels = shop.split("train")["price"].dropna()
    for split, metrics in metrics_of(trained).items():
        click, price = metrics["tasks"]["click"], metrics["tasks"]["price"]
        expected = price["mse"] / labels.var(ddof=0)
        assert (
            price["loss"] == price["mse"] == pytest.approx(price["rmse"] ** 2)
        )
        assert price["standardized_loss"] == pytest.approx(expected)
        total = (click["loss"] + expected) / 2
        assert metrics["loss"] == pytest.approx(total)
        own = shop.split(split)["price"].dropna()
        constant = np.square(own - labels.mean()).mean() ** 0.5
        assert price["constant"]["rmse"] == pytest.approx(constant)
        base_rate = shop.split("train")["click"].mean()
        share = shop.split(split)["click"].mean()
        assert click["constant"]["loss"] == pytest.approx(
            -share * np.log(base_rate) - (1 - share) * np.log(1 - base_rate)
        )


@pytest.mark.traced_once("jax")
def test_history_has_the_trained_loss_and_errors_in_the_own_unit(
    trained: Path,
) -> None:
    history = pd.read_csv(trained / "history.csv")
    best = history.iloc[history["val_loss"].argmin()]
    validation = metrics_of(trained)["validation"]
    price = validation["tasks"]["price"]
    assert best["val_loss"] == pytest.approx(validation["loss"], rel=1e-5)
    assert best["val_price_loss"] == pytest.approx(
        price["standardized_loss"], rel=1e-5
    )
    assert best["val_price_rmse"] == pytest.approx(price["rmse"], rel=1e-5)
    assert best["val_price_mae"] == pytest.approx(price["mae"], rel=1e-5)
    assert history["price_loss"].iloc[-1] < 2


@pytest.mark.once("torch")
def test_off_keeps_the_losses_as_they_are(drowned: Path) -> None:
    metrics = metrics_of(drowned)["test"]
    tasks = metrics["tasks"]
    total = (tasks["click"]["loss"] + tasks["price"]["mse"]) / 2
    assert metrics["loss"] == pytest.approx(total)
    assert "standardized_loss" not in tasks["price"]
    assert tasks["price"]["constant"]["mae"] > 0
    assert Run(drowned).load_model().target_scales == {}


@pytest.mark.once("torch")
def test_predictions_are_in_the_own_unit(
    trained: Path, shop: Dataset, tmp_path: Path
) -> None:
    shop.split("test").to_csv(tmp_path / "in.csv", index=False)
    recsys.predict(trained, tmp_path / "in.csv", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    errors = (table["price"] - table["price_label"]).dropna()
    rmse = metrics_of(trained)["test"]["tasks"]["price"]["rmse"]
    assert np.square(errors).mean() ** 0.5 == pytest.approx(rmse, rel=1e-4)


@pytest.mark.once("tensorflow")  # It writes exports of any backend.
def test_exported_model_predicts_in_the_own_unit(
    trained: Path, shop: Dataset, tmp_path: Path
) -> None:
    tf = pytest.importorskip("tensorflow")
    recsys.export(trained, tmp_path / "export")
    loaded = tf.saved_model.load(str(tmp_path / "export" / "1"))
    frame = shop.split("test")[:20]
    outputs = loaded.signatures["serving_default"](
        user=tf.constant(frame["user"].to_numpy()),
        item=tf.constant(frame["item"].to_numpy()),
    )
    model = recsys.load_model(trained)
    expected = keras.ops.convert_to_numpy(model(model.encode(frame))["price"])
    np.testing.assert_allclose(outputs["price"], expected[:, 0], rtol=1e-4)
    assert expected.min() > 3000


@pytest.mark.once("torch")
def test_experts_left_out_of_the_export_change_nothing(
    train_shop: Callable[..., Any], tmp_path: Path
) -> None:
    from recsys.models.simplification import without_unused_experts

    static = {"gate": "top-k", "k": 1, "gate_options": {"static": True}}
    train_shop(tmp_path / "run", epochs=1, **static)
    model = Run(tmp_path / "run").load_ranker()
    pruned = without_unused_experts(model)
    assert pruned is not model
    assert pruned.target_scales == model.target_scales
    assert pruned.constants == model.constants


@pytest.mark.once("torch")
def test_resumed_run_ends_as_an_uninterrupted_one(
    trained: Path,
) -> None:
    config = Run(trained.with_name("begun")).read_config()
    metrics = recsys.train(config, resume=True)
    expected = metrics_of(trained)["test"]
    assert metrics["test"]["loss"] == pytest.approx(expected["loss"], rel=1e-5)


@pytest.mark.once("torch")
@pytest.mark.draws
def test_odd_labels_train(
    shop: Dataset, train_shop: Callable[..., Any], tmp_path: Path
) -> None:
    """All the same, a single one, and as large as labels may be."""
    labels = {
        "same": lambda size: np.full(size, 7e4),
        "single": lambda size: [7e4] + [np.nan] * (size - 1),
        "huge": lambda size: 1e14 * (np.arange(size) % 5),
    }
    splits = {}
    for name, split in shop.splits.items():
        odd = {task: make(len(split)) for task, make in labels.items()}
        splits[name] = split.drop(columns="price").assign(**odd)
    tasks = {"click": "binary", **dict.fromkeys(labels, "regression")}
    schema = Schema("odd", SCHEMA.features, tasks)
    Dataset(schema, splits).write(tmp_path / "data")
    metrics = train_shop(tmp_path / "run", data=str(tmp_path / "data"))["test"]
    assert metrics["tasks"]["click"]["auc"] > 0.8
    assert metrics["loss"] < 2
    assert metrics["tasks"]["same"]["rmse"] < 2
    assert 1e13 < metrics["tasks"]["huge"]["rmse"] < 2e14


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("scales", "constants"),
    [
        ({"price": 0.0}, {"price": 1.0}),
        ({"price": 1.0}, {}),
        ({"click": 1.0}, {"click": 0.5}),
    ],
)
def test_wrong_scales(
    scales: dict[str, float], constants: dict[str, float], trained: Path
) -> None:
    config = Run(trained).load_ranker().get_config()
    changed = {**config, "target_scales": scales, "constants": constants}
    with pytest.raises(ValueError, match="`target_scales` must be above 0"):
        recsys.Ranker.from_config(changed)


@pytest.mark.once("torch")
def test_constant_of_another_form(trained: Path) -> None:
    config = Run(trained).load_ranker().get_config()
    changed = {**config, "target_scales": {}, "constants": {"click": [0.1, 1]}}
    with pytest.raises(ValueError, match="`constants` must be numbers"):
        recsys.Ranker.from_config(changed)
