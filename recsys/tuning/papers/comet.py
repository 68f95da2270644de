"""Ibrahim et al., COMET, KDD 2023: the search spaces of supplement S1.3.

A choice of one is a setting that the section fixes; the widths of embeddings
and experts are of S1.2. MultiFashionMNIST has 6 experts in S1.3 and 5 in S1.2,
as in the MOESART paper: 5 is taken. CelebA's 6 experts are of S1.2 as well.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """What is published for one data set.

    Attributes:
        training: What every gate is tuned over, or trained with.
        gamma: Of DSelect-k and COMET.
        gamma_with_search: Of COMET+, which is not tuned over it.
        entropy_weight: Of DSelect-k, COMET and COMET+.
    """

    training: dict[str, Any]
    gamma: list[float]
    gamma_with_search: float
    entropy_weight: list[float]


_NARROW = {
    "embedding_dim": [64],
    "expert_units": [[128]],
    "head_units": [[256]],
}

PUBLISHED: dict[str, Published] = {
    "movielens-1m": Published(
        training={
            "learning_rate": {"min": 5e-5, "max": 5e-4, "sampling": "log"},
            "batch_size": [512],
            "epochs": [100],
            "patience": [25],
            "num_experts": [16],
            "k": [2],
        },
        gamma=[0.01, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=10.0,
        entropy_weight=[0.05, 0.1, 0.5, 1.0, 5.0, 10.0],
    ),
    "books": Published(
        training={
            "learning_rate": {"min": 5e-5, "max": 5e-4, "sampling": "log"},
            "batch_size": [2048],
            "epochs": [100],
            "patience": [25],
            "num_experts": [9],
            "k": [4],
            **_NARROW,
        },
        gamma=[0.1, 0.5, 1.0, 5.0, 10.0],
        gamma_with_search=0.5,
        entropy_weight=[1.0, 5.0, 10.0, 50.0, 100.0],
    ),
    "jester": Published(
        training={
            "learning_rate": {"min": 5e-5, "max": 5e-4, "sampling": "log"},
            "batch_size": [2048],
            "epochs": [100],
            "patience": [25],
            "num_experts": [16],
            "k": [2],
            **_NARROW,
        },
        gamma=[0.001, 0.02, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=0.01,
        entropy_weight=[0.05, 0.1, 0.5, 1.0, 5.0, 10.0],
    ),
    "digits": Published(
        training={
            "learning_rate": {"min": 1e-5, "max": 5e-4, "sampling": "log"},
            "batch_size": [512],
            "epochs": [200],
            "patience": [25],
            "num_experts": [8],
            "k": [2],
        },
        gamma=[0.001, 0.01, 0.1, 1.0],
        gamma_with_search=0.001,
        entropy_weight=[0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
    ),
    "multi-mnist": Published(
        training={
            "learning_rate": {"min": 1e-4, "max": 1e-3, "sampling": "log"},
            "batch_size": [512],
            "epochs": [200],
            "patience": [25],
            "num_experts": [16],
            "k": [4],
        },
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=0.01,
        entropy_weight=[0.0001, 0.001, 0.01, 0.1, 1.0, 5.0, 10.0],
    ),
    "multi-fashion-mnist": Published(
        training={
            "learning_rate": {"min": 1e-4, "max": 1e-3, "sampling": "log"},
            "batch_size": [512],
            "epochs": [200],
            "patience": [25],
            "num_experts": [5],
            "k": [2],
        },
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0],
        gamma_with_search=0.01,
        entropy_weight=[0.001, 0.01, 0.1, 1.0, 5.0],
    ),
    "celeba": Published(
        training={
            "learning_rate": {"min": 1e-4, "max": 1e-3, "sampling": "log"},
            "batch_size": [512],
            "epochs": [100],
            "patience": [25],
            "num_experts": [6],
            "k": [2],
        },
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0],
        gamma_with_search=5.0,
        entropy_weight=[0.001, 0.01, 0.1, 1.0, 5.0],
    ),
}

# Of every gate with permutation local search: its epochs, and zeta.
LOCAL_SEARCH: dict[str, Any] = {
    "search_epochs": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "search_entropy_weight": [1e-4],
}
