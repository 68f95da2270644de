"""Ibrahim et al., MOESART: the search spaces of supplement S6.3.

500 random trials per router, except for SVHN, which is trained once. The
paper does not state the tuning of DSelect-k's and COMET's own hyperparameters
for table S4, nor the weights of the load losses of V-MoE, SMoE and X-MoE:
here the former are tuned as in COMET's paper, and there are no such losses.
"""

from dataclasses import dataclass

from recsys.tuning.papers import published
from recsys.tuning.papers.published import KNOWN_IDS
from recsys.tuning.papers.published import NARROW
from recsys.tuning.papers.published import adam

# Figures 2 to 4.
_ON_SVHN = ("softmax", "top-k", "moesart")
# Table 1, in which SMoE is Switch's router, and table S4.
_GATES = (
    "softmax",
    "top-k",
    "v-moe",
    "switch",
    "expert-choice",
    "x-moe",
    "moesart",
    "dselect-k",
    "comet",
)

# S6.3, on every data set but SVHN. Supplement S3.3 speaks of 0, 1e-4, 1e-3,
# 0.01, 0.1, 1 and 10 for the same 500 trials on MovieLens and Books.
_TUNED = [0.0, 0.01, 0.1, 1.0, 10.0]


@dataclass(frozen=True)
class Published(published.Published):
    """Published settings for one data set.

    Attributes:
        trimmed_lasso_weight: Of MOESART.
    """

    trimmed_lasso_weight: list[float]


PUBLISHED: dict[str, Published] = {
    # S6.3, "SVHN": one trial, nothing is searched.
    "svhn": Published(
        gates=_ON_SVHN,
        training={
            "learning_rate": [1e-4],
            "batch_size": [512],
            "epochs": [250],
            "patience": [50],
            "num_experts": [8],
            "k": [2],
        },
        trimmed_lasso_weight=[0.0],
    ),
    # S6.3, "MovieLens".
    "movielens-1m": Published(
        gates=_GATES,
        training=adam((5e-5, 5e-4), 512, 100, num_experts=16, k=2) | KNOWN_IDS,
        trimmed_lasso_weight=_TUNED,
    ),
    # S6.3, "Books".
    "books": Published(
        gates=_GATES,
        training=adam((5e-5, 5e-4), 2048, 100, num_experts=9, k=4) | NARROW,
        trimmed_lasso_weight=_TUNED,
    ),
    # S6.3, "Multi-MNIST"; 8 experts in S6.2 and table 1 as well. The COMET
    # paper has 16.
    "multi-mnist": Published(
        gates=_GATES,
        training=adam((1e-4, 1e-3), 512, 200, num_experts=8, k=4),
        trimmed_lasso_weight=_TUNED,
    ),
    # S6.3, "Multi-FashionMNIST".
    "multi-fashion-mnist": Published(
        gates=_GATES,
        training=adam((1e-4, 1e-3), 512, 200, num_experts=5, k=2),
        trimmed_lasso_weight=_TUNED,
    ),
}


def trimmed_lasso_weight(data_set: str) -> list[float]:
    """MOESART's weights; on data not in the paper, those of most data in it."""
    if data_set in PUBLISHED:
        return PUBLISHED[data_set].trimmed_lasso_weight
    return _TUNED
