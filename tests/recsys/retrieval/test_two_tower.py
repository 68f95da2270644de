import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from keras import ops

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import SoftmaxGate
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.errors import FileError
from recsys.models.build import build_ranker
from recsys.models.model_file import load_model_file
from recsys.models.model_file import save_model_file
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.resolve_config import resolve_config

Build = Callable[..., Ranker]


@pytest.fixture
def build(films: Dataset, fields: Callable[..., dict[str, Any]]) -> Build:
    def make(**changes: Any) -> Ranker:
        config = TrainConfig(**fields(Path("out"), **changes))
        return build_ranker(resolve_config(config, films.schema), films)

    return make


@pytest.fixture
def two_tower(build: Build) -> TwoTower:
    model = build()
    assert isinstance(model, TwoTower)
    return model


@pytest.mark.sampled(2)
def test_a_ranker_has_no_retrieval(build: Build) -> None:
    ranker = build(retrieval=False, select=None)
    assert type(ranker) is Ranker
    for name in ("retrieval", "query_names", "query_vectors", "item_vectors"):
        assert not hasattr(ranker, name)
    assert "retrieval" not in ranker.get_config()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("retrieval_ids", ["vectors", "embeddings"])
def test_a_saved_file_holds_all_of_it(
    build: Build, films: Dataset, tmp_path: Path, retrieval_ids: str
) -> None:
    model = build(retrieval_ids=retrieval_ids)
    assert isinstance(model, TwoTower)
    update_index(model)
    save_model_file(model, tmp_path / "model.keras")
    loaded = load_model_file(tmp_path / "model.keras")
    assert type(loaded) is TwoTower
    for own, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (own, other)))
    np.testing.assert_array_equal(
        model.retrieval.vectors, loaded.retrieval.vectors
    )
    inputs = model.encode(films.split("test"))
    for one in (TwoTower.query_vectors, TwoTower.item_vectors):
        found = (ops.convert_to_numpy(one(m, inputs)) for m in (model, loaded))
        np.testing.assert_array_equal(*found)
    ours, theirs = model(inputs), loaded(inputs)
    for task in ours:
        np.testing.assert_array_equal(
            *(ops.convert_to_numpy(outputs[task]) for outputs in (ours, theirs))
        )


@pytest.mark.sampled(2)
def test_weights_alone_are_read_by_another(
    build: Build, two_tower: TwoTower, tmp_path: Path
) -> None:
    other = build(seed=1)
    two_tower.save_weights(tmp_path / "all.weights.h5")
    other.load_weights(tmp_path / "all.weights.h5")
    for own, read in zip(two_tower.weights, other.weights, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (own, read)))


@pytest.mark.sampled(2)
def test_its_configuration_makes_another(two_tower: TwoTower) -> None:
    other = TwoTower.from_config(two_tower.get_config())
    assert other.get_config() == two_tower.get_config()
    assert [each.shape for each in other.retrieval.variables] == [
        each.shape for each in two_tower.retrieval.variables
    ]


@pytest.mark.sampled(2)
def test_another_mixture_ranks_alone(two_tower: TwoTower) -> None:
    gates = {task: SoftmaxGate(2) for task in two_tower.tasks}
    ranker = two_tower.with_mixture(MMoE(gates, MLPExperts(2, 8)))
    assert type(ranker) is Ranker
    assert ranker.embeddings["user"] is two_tower.embeddings["user"]
    assert ranker.ranking_variables == ranker.variables
    towers = {id(each) for each in two_tower.retrieval.variables}
    assert not towers & {id(each) for each in ranker.variables}


@pytest.mark.sampled(2)
def test_ranking_needs_no_variable_of_the_towers(two_tower: TwoTower) -> None:
    ranking = {id(each) for each in two_tower.ranking_variables}
    towers = {id(each) for each in two_tower.retrieval.variables}
    assert not ranking & towers
    assert ranking | towers == {id(each) for each in two_tower.variables}


@pytest.mark.once("tensorflow")
def test_a_query_takes_all_tensors_of_a_feature(
    films: Dataset, fields: Callable[..., dict[str, Any]]
) -> None:
    """As an ONNX graph has them: numbers and weights apart."""
    kinds: dict[str, Any] = {"type": "ids", "weighted": True}
    schema = replace(
        films.schema, features={**films.schema.features, "rated": kinds}
    )
    lists = [["a:0.5", "b:2"], [], ["b:0.25"]]
    splits = {
        name: rows.assign(rated=[lists[n % 3] for n in range(len(rows))])
        for name, rows in films.splits.items()
    }
    dataset = Dataset(schema, splits, items=films.items)
    config = TrainConfig(**fields(Path("out")))
    model = build_ranker(resolve_config(config, schema), dataset)
    assert isinstance(model, TwoTower)
    rows = splits["test"][:6]
    given = model.encode(rows)
    encoded = given["rated"]  # Weights as the bits of integers.
    apart = encoded[..., 0], encoded[..., 1].view(np.float32)
    expected, received = (
        ops.convert_to_numpy(model.query_vectors({**given, "rated": values}))
        for values in (encoded, apart)
    )
    np.testing.assert_array_equal(received, expected)
    assert (expected[0] != expected[1]).any()


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize(
    ("retrieval", "message"),
    [
        (None, "an object at config.retrieval"),
        ({"config": {"item": "movie"}}, "the item of retrieval.*'movie'"),
    ],
)
def test_a_file_with_a_wrong_retrieval_is_refused(
    two_tower: TwoTower, tmp_path: Path, retrieval: Any, message: str
) -> None:
    save_model_file(two_tower, tmp_path / "model.keras")
    with (
        ZipFile(tmp_path / "model.keras") as whole,
        ZipFile(tmp_path / "changed.keras", "w") as changed,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            if name == "config.json":
                saved = json.loads(content)
                saved["config"]["retrieval"] = retrieval
                content = json.dumps(saved).encode()
            changed.writestr(name, content)
    with pytest.raises(FileError, match=message):
        load_model_file(tmp_path / "changed.keras")
