from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

from recsys import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import FileError
from recsys.models.build import build_ranker
from recsys.models.grown_weights import copy_grown_weights
from recsys.models.id_embedding import table_widths
from recsys.models.ranker import Ranker
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.traced_once("tensorflow")

SCHEMA = Schema(
    "shop",
    {
        "age": "number",
        "item": {"type": "id", "dim": 3},
        "history": {"type": "sequence", "of": "item", "length": 3},
        "tags": "ids",
        "user": "id",
    },
    {"price": "regression"},
)


def day(items: list[int], users: list[str], **changes: Any) -> Dataset:
    rows = pd.DataFrame(
        {
            "age": np.arange(4.0) + len(set(items)),
            "item": items,
            "history": [np.array(items[:n]) for n in range(4)],
            "tags": [np.array([items[0] + n % 2]) for n in range(4)],
            "user": users,
            "price": np.arange(4.0) * len(set(items)),
        }
    ).assign(**changes)
    return Dataset(SCHEMA, dict.fromkeys(("train", "validation"), rows))


DAY_1 = day([1, 2, 3, 1], ["b", "c", "b", "c"])
DAY_2 = day([9, 2, 0, 4], ["c", "a", "d", "c"])


def build(
    data: Dataset, source: Ranker | None = None, **changes: Any
) -> Ranker:
    fields: dict[str, Any] = {
        "gate": "top-k",
        "num_experts": 3,
        "embedding_dim": 2,
        "expert_units": [4],
        "head_units": [4],
    }
    config = TrainConfig("data", "out", **(fields | changes))
    return build_ranker(resolve_config(config, data.schema), data, source)


def grown(source: Ranker, **changes: Any) -> Ranker:
    keras.utils.set_random_seed(1)
    model = build(DAY_2, source, **changes)
    copy_grown_weights(source, model, "run")
    return model


def table_of(ranker: Ranker, name: str) -> Any:
    return ranker.embeddings[name].get_weights()[0]


def test_tables_grow_by_rows_of_the_unknown_id() -> None:
    source = build(DAY_1)
    model = grown(source)
    assert list(model.fitted) == list(source.fitted)
    sizes = {"item": (4, 7), "tags": (3, 5), "user": (3, 5)}
    assert set(model.embeddings) == {*sizes, "age"}
    for name, (held, wanted) in sizes.items():
        before, after = table_of(source, name), table_of(model, name)
        assert (len(before), len(after)) == (held, wanted)
        np.testing.assert_array_equal(after[:held], before)
        assert (after[held:] == before[0]).all()


def test_widths_by_the_number_of_ids_stay_as_ids_are_added() -> None:
    source = build(DAY_1, embedding_dim=None)
    model = grown(source, embedding_dim=None)
    assert model.table_widths == source.table_widths
    by_their_number = table_widths(model.fitted, None)
    for name in ("tags", "user"):
        assert (model.table_widths[name], by_their_number[name]) == (4, 6)


def test_every_other_weight_is_kept() -> None:
    source = build(DAY_1)
    model = grown(source)
    tables = [id(layer.weights[0]) for layer in model.embeddings.values()]
    for one, other in zip(source.weights, model.weights, strict=True):
        if id(other) not in tables:
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_predictions_for_all_ids_are_those_of_the_source() -> None:
    """For new ones, as for unknown ones; units of numbers and labels stay."""
    source = build(DAY_1)
    model = grown(source)
    for data in (DAY_1, DAY_2):
        rows = data.split("train")
        before, after = (
            one(one.encode(rows))["price"] for one in (source, model)
        )
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(after),
            keras.ops.convert_to_numpy(before),
        )
    assert model.target_scales == source.target_scales
    assert model.constants == source.constants
    encoded = model.encode(DAY_2.split("train"))
    for name in ("item", "tags", "user"):
        assert (encoded[name] != 0).all()


def test_an_expert_of_a_hash_gate_keeps_its_known_ids() -> None:
    fields = {"gate": "hash", "hash_feature": "item", "num_experts": 4}
    source = build(DAY_1, **fields, seed=1)
    model = grown(source, **fields, seed=2)
    before, after = (
        next(
            weight.numpy()
            for weight in one.weights
            if weight.path.endswith("/table")
        )
        for one in (source, model)
    )
    assert (before.shape, after.shape) == ((4,), (7,))
    assert after[:4].tolist() == before.tolist()


def test_weights_of_another_model_are_refused() -> None:
    source = build(DAY_1)
    with pytest.raises(FileError, match=r"^run: expected a weight \(.*, 5\)"):
        grown(source, expert_units=[5])
    with pytest.raises(FileError, match=r"^run: expected \d+ weights\. Rec"):
        grown(source, head_units=[4, 4])
