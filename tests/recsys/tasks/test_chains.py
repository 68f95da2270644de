"""Tasks that come after others."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy

import recsys
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import SoftmaxGate
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import DataError
from recsys.features import Id
from recsys.measuring.measure import measure
from recsys.models.label_statistics import constant_predictions
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.tasks import Binary
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.chains import parents_first
from tests.recsys.conftest import Settings

NAN = float("nan")
# Out of their order, as a data set may name them.
CHAIN: dict[str, Task] = {
    "return": Binary(after="buy"),
    "click": Binary(),
    "buy": Binary(after="click"),
}
ROWS = pd.DataFrame(
    {
        "user": [1, 2, 3, 4, 5, 6],
        "click": [1.0, 1.0, 0.0, 1.0, 0.0, NAN],
        "buy": [1.0, 0.0, NAN, NAN, 1.0, 1.0],
        "return": [1.0, NAN, NAN, 0.0, NAN, 1.0],
    }
)


def test_parents_come_first() -> None:
    assert parents_first(CHAIN) == ["click", "buy", "return"]


def test_labels_by_hand() -> None:
    """What did not happen is enough to know that not all did."""
    labels = labels_of(ROWS, CHAIN)
    assert list(labels) == list(CHAIN)
    np.testing.assert_array_equal(labels["click"], ROWS["click"])
    np.testing.assert_array_equal(labels["buy"], [1, 0, 0, NAN, 0, NAN])
    np.testing.assert_array_equal(labels["return"], [1, 0, 0, 0, 0, NAN])


@pytest.mark.parametrize(
    ("click", "buy"), [*itertools.product([0.0, 1.0, NAN], repeat=2)]
)
def test_a_label_is_known_where_all_completions_agree(
    click: float, buy: float
) -> None:
    """The "and" of the paper, for whatever a missing label may turn out."""
    tasks = {"click": CHAIN["click"], "buy": CHAIN["buy"]}
    rows = pd.DataFrame({"click": [click], "buy": [buy]})
    completions = {
        int(first and second)
        for first in ([0, 1] if np.isnan(click) else [click])
        for second in ([0, 1] if np.isnan(buy) else [buy])
    }
    expected = completions.pop() if len(completions) == 1 else NAN
    np.testing.assert_equal(labels_of(rows, tasks)["buy"], [expected])


def chained() -> Ranker:
    return Ranker(
        {"user": Id().fit([ROWS["user"]])},
        CHAIN,
        MMoE(
            {task: SoftmaxGate(2, seed=0) for task in CHAIN},
            MLPExperts(2, 4, seed=0),
        ),
        embedding_dim=4,
        unknown_rate=0,
    )


def test_predictions_are_products(tmp_path: Path) -> None:
    model = chained()
    inputs = model.encode(ROWS)
    towers = model.mixture(*model.mixture_inputs(inputs, False))
    alone = {
        task: to_numpy(head(towers[task])) for task, head in model.heads.items()
    }
    outputs = {task: to_numpy(y) for task, y in model(inputs).items()}
    assert list(outputs) == list(CHAIN)
    np.testing.assert_array_equal(outputs["click"], alone["click"])
    both = alone["click"] * alone["buy"]
    np.testing.assert_allclose(outputs["buy"], both, rtol=1e-6)
    all_three = both * alone["return"]
    np.testing.assert_allclose(outputs["return"], all_three, rtol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.tasks == CHAIN
    again_outputs = to_numpy(again(inputs)["return"])
    np.testing.assert_array_equal(again_outputs, outputs["return"])


def test_metrics_and_constants_are_of_both() -> None:
    schema = Schema("shop", {"user": "id"}, CHAIN)
    constants = constant_predictions(Dataset(schema, {"train": ROWS}))
    assert constants["buy"] == 0.25
    assert constants["return"] == 0.2
    scores = Scorer(chained()).score(ROWS)
    metrics = measure(scores, ROWS, CHAIN, dict.fromkeys(CHAIN, 1.0))
    known = [0, 1, 2, 4]
    expected = Binary().measure(
        np.array([1.0, 0, 0, 0]), scores.predictions["buy"][known]
    )
    assert metrics["tasks"]["buy"] == expected


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            {"click": "binary", "buy": {"type": "binary", "after": "clik"}},
            "'tasks', column 'buy': expected `after` one of the other binary "
            "tasks ['click'] (did you mean 'click'?). Received: 'clik'",
        ),
        (
            {
                "stars": "regression",
                "buy": {"type": "binary", "after": "stars"},
            },
            "tasks []. Received: 'stars'",
        ),
        (
            {"buy": {"type": "binary", "after": "buy"}},
            "tasks []. Received: 'buy'",
        ),
        (
            {
                "a": {"type": "binary", "after": "b"},
                "b": {"type": "binary", "after": "c"},
                "c": {"type": "binary", "after": "a"},
            },
            "column 'a': expected `after` a task that does not come after "
            "this one. Received: a after b after c after a",
        ),
    ],
)
def test_what_a_task_cannot_come_after(
    tasks: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        Schema("shop", {"user": "id"}, tasks)
    assert message in str(caught.value)


@pytest.mark.once("tensorflow")
@pytest.mark.slow
def test_training_to_export(
    settings: Callable[..., Settings],
    train_quickly: Callable[[Settings], object],
    tmp_path: Path,
) -> None:
    """Odd items are clicked, those of an even user bought after that.

    The column of purchases is empty without a click: only over all rows does
    the product become small where nobody clicks.
    """
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 12, (2, 1200))
    click = item % 2
    rows = pd.DataFrame({"user": user, "item": item, "click": click})
    rows["buy"] = np.where(click == 1, 1.0 - user % 2, NAN)
    schema = Schema(
        "shop",
        {"user": "id", "item": "id"},
        {"click": "binary", "buy": {"type": "binary", "after": "click"}},
    )
    recsys.dataset_from_table(rows, schema).write(tmp_path / "data")
    fields = {"data": str(tmp_path / "data"), "gate": "softmax"}
    fields |= {"epochs": 8, "learning_rate": 0.03}  # type: ignore[dict-item]
    run = tmp_path / "run"
    train_quickly(settings(run, **fields))
    metrics = json.loads((run / "metrics.json").read_text())["test"]["tasks"]
    assert metrics["buy"]["auc"] > 0.98
    model = recsys.load_model(run)
    assert model.constants["buy"] == pytest.approx(0.25, abs=0.05)
    scores = model.predict(rows)
    assert (scores["buy"] <= scores["click"]).all()
    assert scores["buy"][click == 0].mean() < 0.1
    if keras.backend.backend() == "tensorflow":
        recsys.export(run, tmp_path / "export")  # Verifies what it predicts.
