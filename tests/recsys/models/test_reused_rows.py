"""Models whose ids have come and gone: what belongs to those that stay."""

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

from recsys import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.models.build import build_ranker
from recsys.models.grown_weights import copy_grown_weights
from recsys.models.id_rows import row_origins
from recsys.models.label_deviations import held_statistics
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.private_names import each_layer
from recsys.tables.variable_values import assign
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.traced_once("tensorflow")

LARGE = 2**53
SCHEMA = Schema(
    "shop",
    {
        "user": "id",
        "item": "id",
        "kind": "id",
        "tags": {"type": "ids", "weighted": True},
        "history": {"type": "sequence", "of": "item", "length": 3},
        "age": "number",
    },
    {"click": "binary"},
    scenario="kind",
)


def day(items: list[int]) -> Dataset:
    """Three rows of each item; users and features follow from it."""
    item = np.repeat(items, 3)
    split = pd.DataFrame(
        {
            "user": [f"u{number}" for number in item],
            "item": item + LARGE,
            "kind": [f"k{number // 2}" for number in item],
            "tags": [
                np.array([f"t{number}:0.5", f"t{number + 1}:2"], object)
                for number in item
            ],
            "history": [np.array([number]) + LARGE for number in item],
            "age": np.arange(len(item)) * 1.0,
            "click": item % 2 * 1.0,
        }
    )
    return Dataset(SCHEMA, dict.fromkeys(("train", "validation"), split))


# Of the items 1 to 6, the odd ones leave: 4 free numbers of five rows.
DAY_1, DAY_2 = day([1, 2, 3, 4, 5, 6]), day([2, 4, 6, 8, 9])


def build(
    data: Dataset, source: Ranker | None = None, **changes: Any
) -> Ranker:
    fields: dict[str, Any] = {
        "gate": "hash",
        "hash_feature": "item",
        "num_experts": 3,
        "k": 1,
        "embedding_dim": 2,
        "expert_units": [3],
        "head_units": [3],
        "evict_after": 1,
        "target_statistics": True,
    }
    config = TrainConfig("data", "out", **(fields | changes))
    return build_ranker(resolve_config(config, data.schema), data, source)


def with_any_weights(ranker: Ranker) -> Ranker:
    """The weights as if it was trained: no two rows are alike."""
    rng = np.random.default_rng(0)
    for weight in ranker.weights:
        if "float" in weight.dtype:
            assign(weight, rng.normal(size=weight.shape).astype("float32"))
    return ranker


def after_day_2(source: Ranker, **changes: Any) -> Ranker:
    keras.utils.set_random_seed(1)
    model = build(DAY_2, source, **changes)
    copy_grown_weights(source, model, "run")
    return model


def rows_by_id(ranker: Ranker, feature: str, weight: Any) -> dict[Any, Any]:
    return dict(
        zip(ranker.vocabularies[feature].values, weight[1:], strict=True)
    )


def check_rows(
    before: Ranker, after: Ranker, feature: str, old: Any, new: Any
) -> None:
    """Ids that stay have their rows, new ones that of unknown ids."""
    held = rows_by_id(before, feature, old)
    rows = rows_by_id(after, feature, new)
    assert 0 < len(held.keys() & rows.keys()) < min(len(held), len(rows))
    np.testing.assert_array_equal(new[0], old[0])
    for id, row in rows.items():
        np.testing.assert_array_equal(row, held.get(id, old[0]))


@pytest.fixture(scope="module")
def pair() -> tuple[TwoTower, TwoTower]:
    source = with_any_weights(build(DAY_1, retrieval=True))
    model = after_day_2(source, retrieval=True)
    assert isinstance(source, TwoTower)
    assert isinstance(model, TwoTower)
    return source, model


def test_who_stays_keeps_the_number(pair: tuple[TwoTower, TwoTower]) -> None:
    _, model = pair
    items = model.vocabularies["item"].values - LARGE
    # One row less: 6 moves to the first free one.
    assert items.tolist() == [6, 2, 8, 4, 9]
    users = model.vocabularies["user"].values
    assert users.tolist() == ["u6", "u2", "u8", "u4", "u9"]


def test_tables_have_the_rows_of_their_ids(
    pair: tuple[TwoTower, TwoTower],
) -> None:
    source, model = pair
    for name in ("user", "item", "kind", "tags"):
        old, new = (
            each.embeddings[name].get_weights()[0] for each in (source, model)
        )
        check_rows(source, model, name, old, new)
    assert source.retrieval.id_vectors.keys() == {"user", "item"}
    for name in source.retrieval.id_vectors:
        old, new = (
            each.retrieval.id_vectors[name].get_weights()[0]
            for each in (source, model)
        )
        check_rows(source, model, name, old, new)


def test_target_statistics_are_those_of_their_ids(
    pair: tuple[TwoTower, TwoTower],
) -> None:
    source, model = pair
    assert source.statistics is not None
    held = held_statistics(source, model)
    assert held is not None
    assert held.keys() == {"user", "item"}
    for name, old in source.statistics.held().items():
        check_rows(source, model, name, old, held[name])


def test_known_ids_keep_the_expert_of_a_hash_gate(
    pair: tuple[TwoTower, TwoTower],
) -> None:
    old, new = (
        next(
            layer.table.numpy()
            for layer in each_layer(each.mixture)
            if hasattr(layer, "table")
        )
        for each in pair
    )
    held, rows = (
        rows_by_id(each, "item", table)
        for each, table in zip(pair, (old, new), strict=True)
    )
    assert {id: rows[id] for id in held.keys() & rows.keys()} == {
        LARGE + item: held[LARGE + item] for item in (2, 4, 6)
    }


def test_the_catalogue_has_the_ids_that_its_items_have() -> None:
    """Also of items that the new day does not have; ids that left are 0."""
    changes = {"retrieval": True, "evict_after": 2}
    source = build(DAY_1, **changes)
    model = after_day_2(source, **changes)
    later = build(day([8, 9, 10, 10]), model, **changes)
    copy_grown_weights(model, later, "run")
    assert isinstance(later, TwoTower)
    items = later.vocabularies["item"]
    # 1, 3 and 5 have left, and so have their kinds and tags, such as k0 no
    # sooner than 2 and 3, which are of k1.
    assert set(items.values - LARGE) == {2, 4, 6, 8, 9, 10}
    kinds = ["", *later.vocabularies["kind"].values]
    tags = ["", *later.vocabularies["tags"].values]
    for item in (2, 4, 6):
        (number,) = items.encode(pd.Series([LARGE + item]))
        features = later.retrieval.items(np.array([number]))
        assert kinds[int(features["kind"][0])] == f"k{item // 2}"
        numbers, bits = features["tags"][0][:2].T
        assert [tags[n] for n in numbers] == [f"t{item}", f"t{item + 1}"]
        assert bits.astype("int32").view("float32").tolist() == [0.5, 2.0]


def test_scenarios_keep_their_own_weights() -> None:
    changes = {"scenario_model": "star", "gate": "softmax"}
    source = with_any_weights(build(DAY_1, **changes))
    model = after_day_2(source, **changes)
    origins = row_origins(source, model)["kind"]
    assert (origins > 0).sum() == 3
    checked = 0
    for old, new in zip(source.weights, model.weights, strict=True):
        if "star" not in new.path:
            continue
        if new.path.endswith(("kernels", "biases", "gammas", "betas")):
            checked += 1
            drawn = float("betas" not in new.path and "biases" not in new.path)
            for scenario, origin in enumerate(origins[1:]):
                row = new.numpy()[scenario]
                if origin > 0:
                    np.testing.assert_array_equal(row, old.numpy()[origin - 1])
                else:
                    assert (row == drawn).all()
        elif new.path.endswith(("means", "variances")):
            checked += 1
            check_rows(source, model, "kind", old.numpy(), new.numpy())
    assert checked == 8


def test_a_model_that_was_counted_stays_as_it_is() -> None:
    model = after_day_2(build(DAY_1))
    config = TrainConfig(
        "data", "out", gate="hash", num_experts=3, k=1, evict_after=1
    )
    again = build_ranker(
        resolve_config(config, SCHEMA), DAY_2, model, is_counted=True
    )
    for name, vocabulary in model.vocabularies.items():
        assert again.vocabularies[name].values.equals(vocabulary.values)
        assert vocabulary.uses is not None
        assert again.vocabularies[name].uses is vocabulary.uses
