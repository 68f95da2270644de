import dataclasses

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import PermutedGate
from keras_moe.layers import record_routing
from recsys import Dataset
from recsys import Ranker
from recsys import TrainConfig
from recsys.models.build import build_ranker
from recsys.models.simplification import with_folded_permutation
from recsys.models.simplification import without_unused_experts
from recsys.private_names import each_layer
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.traced_once("tensorflow")

CONFIG = TrainConfig(
    "tiny",
    "run",
    num_experts=5,
    k=2,
    embedding_dim=4,
    expert_units=[8],
    head_units=[4],
)
ORDER = [2, 0, 4, 1, 3]


def permuted(dataset: Dataset, **changes: object) -> Ranker:
    config = dataclasses.replace(CONFIG, **changes)
    ranker = build_ranker(resolve_config(config, dataset.schema), dataset)
    rng = np.random.default_rng(0)
    for weight in ranker.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    for weight in ranker.weights:
        if weight.path.endswith("/order") and weight.shape == (5,):
            weight.assign(ORDER)
    return ranker


def gates_of(ranker: Ranker) -> list[object]:
    return [
        layer for layer in each_layer(ranker) if isinstance(layer, PermutedGate)
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "changes",
    [
        {"gate": "comet+"},
        {"gate": "hash+"},
        {"gate": "top-k+", "architecture": "moe"},
        {"gate": "top-k+", "shared_experts": 1},
        {"gate": "dselect-k+", "gate_options": {"static": True}},
    ],
)
def test_predictions_and_weights_stay_and_the_permutation_goes(
    changes: dict[str, object], tiny: Dataset
) -> None:
    ranker = permuted(tiny, **changes)
    folded, order = with_folded_permutation(ranker)
    assert order.tolist() == ORDER
    assert gates_of(ranker)
    assert not gates_of(folded)
    # Tables may be large: there is no second one.
    tables = [ranker.embeddings[name].embeddings for name in ("user", "film")]
    for table, name in zip(tables, ("user", "film"), strict=True):
        assert folded.embeddings[name].embeddings is table
    inputs = ranker.encode(tiny.split("test"))
    with record_routing() as records:
        expected, received = ranker(inputs), folded(inputs)
    for task, predictions in expected.items():
        np.testing.assert_allclose(
            ops.convert_to_numpy(received[task]),
            ops.convert_to_numpy(predictions),
            rtol=1e-4,
            atol=1e-5,
        )
    for before, after in zip(
        records[0].weights.values(), records[1].weights.values(), strict=True
    ):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(after)[:, order], ops.convert_to_numpy(before)
        )


@pytest.mark.parametrize(
    "changes",
    [{"gate": "top-k"}, {"gate": "softmax+", "architecture": "cgc"}],
)
def test_other_rankers_stay_as_they_are(
    changes: dict[str, object], tiny: Dataset
) -> None:
    ranker = permuted(tiny, **changes)
    assert with_folded_permutation(ranker) == (ranker, None)


STATIC = TrainConfig(
    "tiny",
    "run",
    gate="top-k",
    gate_options={"static": True},
    num_experts=8,
    k=2,
    embedding_dim=4,
    expert_units=[8],
    head_units=[4],
)


def trained(dataset: Dataset, **changes: object) -> Ranker:
    config = dataclasses.replace(STATIC, **changes)
    ranker = build_ranker(resolve_config(config, dataset.schema), dataset)
    rng = np.random.default_rng(0)
    ranker.set_weights(
        [rng.normal(size=weight.shape) for weight in ranker.get_weights()]
    )
    return ranker


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("architecture", "most"), [("mmoe", 4), ("moe", 2)])
def test_the_predictions_stay_the_same(
    architecture: str, most: int, tiny: Dataset
) -> None:
    ranker = trained(tiny, architecture=architecture)
    pruned = without_unused_experts(ranker)
    kernels = [
        weight.shape for weight in pruned.weights if weight.name == "kernel_0"
    ]
    assert all(2 <= shape[0] <= most for shape in kernels)
    inputs = ranker.encode(tiny.split("test"))
    for task, predictions in ranker(inputs).items():
        np.testing.assert_allclose(
            to_numpy(pruned(inputs)[task]),
            to_numpy(predictions),
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("interaction", ["none", "dcn"])
def test_all_but_the_mixture_is_that_of_the_ranker(
    interaction: str, tiny: Dataset
) -> None:
    """Tables may be large: there is no second one."""
    ranker = trained(tiny, interaction=interaction)
    pruned = without_unused_experts(ranker)
    own = {id(each) for each in ranker.variables}
    new = {id(each) for each in pruned.variables} - own
    assert new == {id(each) for each in pruned.mixture.variables}


@pytest.mark.parametrize(
    "changes", [{"gate_options": {}}, {"architecture": "cgc"}]
)
def test_rankers_with_all_experts_in_use_stay(
    changes: dict[str, object], tiny: Dataset
) -> None:
    ranker = trained(tiny, **changes)
    assert without_unused_experts(ranker) is ranker
