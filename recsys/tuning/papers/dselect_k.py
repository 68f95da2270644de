"""Hazimeh et al., DSelect-k, NeurIPS 2021: the search spaces of appendix D.

Each point of a grid is tried 5 times on average. Nothing is said of an early
stop, so the patience is that of all epochs. The spaces of the synthetic tasks
(D.4) are in `benchmarks/planted_tasks.py`.
"""

from dataclasses import dataclass

from recsys.files.json_files import JsonObject
from recsys.tuning.papers import published
from recsys.tuning.papers.published import KNOWN_IDS

# Tables 1 and 2, both static and not, and a shared bottom.
_GATES = ("softmax", "top-k", "gumbel-softmax", "dselect-k")

_BOUNDED = ("top-k", "dselect-k")


@dataclass(frozen=True)
class Published(published.Published):
    """Published settings for one data set.

    Attributes:
        k: Of Top-k and DSelect-k.
        gamma: Of DSelect-k.
        entropy_weight: Of DSelect-k, lambda in the paper. The gate's original
            code sums the entropies over the batch (`EntropyRegularizer` of
            `dselect_k_moe/dselect_k_moe.py` in google-research), where
            `keras_moe` takes their mean: `batch_sum` makes up for it.
        sparsity_weight: Of Gumbel-softmax, beta in the paper.
        shared_bottom: What a shared bottom is tuned over as well.
    """

    k: list[int]
    gamma: list[float]
    entropy_weight: list[float]
    sparsity_weight: list[float]
    shared_bottom: JsonObject

    def gate_fields(self, gate: str) -> JsonObject:
        """Fields that only some of the gates are tuned over."""
        return {"k": self.k} if gate in _BOUNDED else {}


# D.2 has the same space for both data sets, and no lambda, though section 3.1.3
# says that it is tuned in all experiments.
_IMAGES = Published(
    gates=_GATES,
    training={
        "learning_rate": [0.01, 0.001, 0.0001, 0.00001],
        "batch_size": [256],
        "epochs": [25, 50, 75, 100],
        "patience": [100],
        "num_experts": [8],
        "expert_units": [[50], [50] * 3, [50] * 5],
    },
    k=[2, 4],
    gamma=[0.1, 1.0, 10.0],
    entropy_weight=[0.0],
    sparsity_weight=[0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0],
    shared_bottom={},
)

PUBLISHED: dict[str, Published] = {
    # D.1, "MovieLens". The width of the embeddings is not stated.
    "movielens-1m": Published(
        gates=_GATES,
        training={
            "optimizer": ["adagrad"],
            "learning_rate": [0.001, 0.01, 0.1, 0.2, 0.3],
            "batch_size": [128],
            "epochs": [5, 10, 20, 30, 40, 50],
            "patience": [50],
            "num_experts": [8],
            **KNOWN_IDS,
        },
        k=[2, 4],
        gamma=[1.0, 10.0],
        entropy_weight=[0.1, 1.0, 10.0],
        sparsity_weight=[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0],
        shared_bottom={
            "bottom_units": [[32], [256], [2048], [4096], [8192]],
        },
    ),
    # D.2, "Multi-MNIST and Multi-Fashion MNIST".
    "multi-mnist": _IMAGES,
    "multi-fashion-mnist": _IMAGES,
}


def sparsity_weight(data_set: str, holds_images: bool) -> list[float]:
    """Gumbel-softmax's weights; on data not in the paper, as on like data."""
    like = "multi-mnist" if holds_images else "movielens-1m"
    return PUBLISHED.get(data_set, PUBLISHED[like]).sparsity_weight


def batch_sum(weight: float, batch_size: int, static: bool) -> float:
    """The weight of a mean over the batch that is that of the published sum.

    Args:
        weight: The weight of a sum over the batch.
        batch_size: How many examples are in it.
        static: Whether the gate is static: its one weighting is not summed.

    Example:
    >>> batch_sum(0.5, 128, static=False), batch_sum(0.5, 128, static=True)
    (64.0, 0.5)
    """
    return weight * (1 if static else batch_size)


def unreachable(num_experts: int, batch_size: int, static: bool) -> JsonObject:
    """Options of the published code for codes without an expert.

    Both the original code and that of the COMET paper sum the penalty over the
    batch, with the weight 1 (`_add_regularization_loss`).

    Example:
    >>> unreachable(9, 2048, static=False)
    {'unreachable': ['penalty'], 'unreachable_weight': [2048.0]}
    >>> unreachable(16, 2048, static=False)
    {}
    """
    if num_experts.bit_count() == 1:
        return {}
    weight = batch_sum(1.0, batch_size, static)
    return {"unreachable": ["penalty"], "unreachable_weight": [weight]}
