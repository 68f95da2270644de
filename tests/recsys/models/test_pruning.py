import dataclasses

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from recsys import Dataset
from recsys import Ranker
from recsys import TrainConfig
from recsys.models.build import build_ranker
from recsys.models.pruning import without_unused_experts
from recsys.training.resolve_config import resolve_config

CONFIG = TrainConfig(
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
    config = dataclasses.replace(CONFIG, **changes)
    ranker = build_ranker(resolve_config(config, dataset.schema), dataset)
    rng = np.random.default_rng(0)
    ranker.set_weights(
        [rng.normal(size=weight.shape) for weight in ranker.get_weights()]
    )
    return ranker


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
def test_other_rankers_stay_as_they_are(
    changes: dict[str, object], tiny: Dataset
) -> None:
    ranker = trained(tiny, **changes)
    assert without_unused_experts(ranker) is ranker
