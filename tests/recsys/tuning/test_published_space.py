"""The published ranges, written out once more from the papers."""

from typing import Any

import pytest

from recsys import TrainConfig
from recsys.models.gates import GATES
from recsys.tuning.parse_space import parse_space
from recsys.tuning.published_space import published_space

# COMET, S1.3: learning rates, batch size, epochs, n, k.
TRAINING = {
    "movielens-1m": (5e-5, 5e-4, 512, 100, 16, 2),
    "books": (5e-5, 5e-4, 2048, 100, 9, 4),
    "jester": (5e-5, 5e-4, 2048, 100, 16, 2),
    "digits": (1e-5, 5e-4, 512, 200, 8, 2),
    "multi-mnist": (1e-4, 1e-3, 512, 200, 16, 4),
    "multi-fashion-mnist": (1e-4, 1e-3, 512, 200, 5, 2),
    "celeba": (1e-4, 1e-3, 512, 100, 6, 2),
}
# COMET, S1.3: gamma; gamma of COMET+; entropy.
GAMMA = {
    "movielens-1m": ([0.01, 0.1, 1, 5, 10], 10),
    "books": ([0.1, 0.5, 1, 5, 10], 0.5),
    "jester": ([0.001, 0.02, 0.1, 1, 5, 10], 0.01),
    "digits": ([0.001, 0.01, 0.1, 1], 0.001),
    "multi-mnist": ([0.001, 0.01, 0.1, 1, 5, 10], 0.01),
    "multi-fashion-mnist": ([0.001, 0.01, 0.1, 1, 5], 0.01),
    "celeba": ([0.001, 0.01, 0.1, 1, 5], 5),
}
ENTROPY = {
    "movielens-1m": [0.05, 0.1, 0.5, 1, 5, 10],
    "books": [1, 5, 10, 50, 100],
    "jester": [0.05, 0.1, 0.5, 1, 5, 10],
    "digits": [0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
    "multi-mnist": [0.0001, 0.001, 0.01, 0.1, 1, 5, 10],
    "multi-fashion-mnist": [0.001, 0.01, 0.1, 1, 5],
    "celeba": [0.001, 0.01, 0.1, 1, 5],
}


def training(data_set: str) -> dict[str, Any]:
    low, high, batch_size, epochs, num_experts, k = TRAINING[data_set]
    narrow = {
        "embedding_dim": [64],
        "expert_units": [[128]],
        "head_units": [[256]],
    }
    return {
        "learning_rate": {"min": low, "max": high, "sampling": "log"},
        "batch_size": [batch_size],
        "epochs": [epochs],
        "patience": [25],
        "num_experts": [num_experts],
        "k": [k],
        **(narrow if data_set in ("books", "jester") else {}),
    }


LOCAL_SEARCH = {
    "search_epochs": list(range(1, 11)),
    "search_entropy_weight": [1e-4],
}


@pytest.mark.parametrize("data_set", TRAINING)
def test_comet_paper(data_set: str) -> None:
    common = training(data_set)
    gamma, gamma_with_search = GAMMA[data_set]
    entropy_weight = ENTROPY[data_set]
    assert published_space("softmax", data_set) == common
    assert published_space("top-k", data_set) == common
    assert published_space("hash+", data_set) == {**common, **LOCAL_SEARCH}
    for gate in ("dselect-k", "comet"):
        assert published_space(gate, data_set) == {
            **common,
            "gate_options": {"gamma": gamma, "entropy_weight": entropy_weight},
        }
    assert published_space("comet+", data_set) == {
        **common,
        **LOCAL_SEARCH,
        "gate_options": {
            "gamma": [gamma_with_search],
            "entropy_weight": entropy_weight,
        },
    }


@pytest.mark.parametrize("data_set", TRAINING)
def test_moesart_paper(data_set: str) -> None:
    common = training(data_set)
    if data_set == "multi-mnist":
        common["num_experts"] = [8]
    assert published_space("moesart", data_set) == {
        **common,
        "gate_options": {"trimmed_lasso_weight": [0.0, 0.01, 0.1, 1, 10]},
    }


@pytest.mark.parametrize(
    ("data_set", "weights"),
    [
        ("movielens-1m", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10]),
        ("multi-mnist", [0, 1e-3, 1e-2, 0.1, 1, 10, 1000]),
    ],
)
def test_gumbel_softmax_of_the_dselect_k_paper(
    data_set: str, weights: list[float]
) -> None:
    assert published_space("gumbel-softmax", data_set) == {
        **training(data_set),
        "gate_options": {"sparsity_weight": weights},
    }


@pytest.mark.parametrize("gate", ["top-k", "comet", "comet+", "moesart"])
def test_other_data_sets_have_a_small_budget(gate: str) -> None:
    space = published_space(gate, "my-logs")
    published = published_space(gate, "movielens-1m")
    assert space.get("gate_options") == published.get("gate_options")
    # What a training has unless it is told otherwise, or twice that.
    assert space["epochs"] == [2 * TrainConfig.epochs]
    assert space["patience"] == [TrainConfig.patience]
    assert max(space.get("search_epochs", [0])) <= space["epochs"][0] / 4
    rates = space["learning_rate"]
    assert rates["min"] < TrainConfig.learning_rate < rates["max"]
    # The model has the sizes of its preset.
    assert "num_experts" in published
    assert "num_experts" not in space


@pytest.mark.parametrize("gate", [*GATES, *(f"{gate}+" for gate in GATES)])
def test_every_gate_has_a_space_that_can_be_read(gate: str) -> None:
    space = parse_space(published_space(gate, "books"), {"gate": gate})
    assert "learning_rate" in space.searched
    assert ("search_epochs" in space.searched) == gate.endswith("+")
