"""Ibrahim et al., COMET, KDD 2023: the search spaces of supplement S1.3.

A choice of one is a setting that the section fixes. 500 trials a gate, 100 on
CelebA, are drawn at random.
"""

from dataclasses import dataclass

from recsys.files.json_files import JsonObject
from recsys.tuning.papers import published
from recsys.tuning.papers.published import KNOWN_IDS
from recsys.tuning.papers.published import NARROW
from recsys.tuning.papers.published import adam

# Table 3; table 2 has two more, as only its data have ids to route by. S1.3
# names Hash-r+ on Jester, whose rows in table 2 lack it.
_ON_IMAGES = ("softmax", "top-k", "top-k+", "dselect-k", "comet", "comet+")
_ON_IDS = (*_ON_IMAGES, "hash", "hash+")


@dataclass(frozen=True)
class Published(published.Published):
    """Published settings for one data set.

    Attributes:
        gamma: Of DSelect-k and COMET.
        gamma_with_search: Of COMET+, which is not tuned over it.
        entropy_weight: Of DSelect-k, COMET and COMET+. The published code of
            both gates takes the mean over the batch, as `keras_moe` does
            (`model/gates/dselect_k.py`, lines 80 to 85, and `comet.py`).
    """

    gamma: list[float]
    gamma_with_search: float
    entropy_weight: list[float]


PUBLISHED: dict[str, Published] = {
    # S1.3, "MovieLens". The configuration file of the published code for
    # DSelect-k (`dselect_k.json`) has 0.001 among the gammas as well. It draws
    # the rows of a batch from a buffer of 1,024 (`main.py`).
    "movielens-1m": Published(
        gates=_ON_IDS,
        training=adam((5e-5, 5e-4), 512, 100, num_experts=16, k=2)
        | KNOWN_IDS
        | {"shuffle_buffer": [1024]},
        gamma=[0.01, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=10.0,
        entropy_weight=[0.05, 0.1, 0.5, 1.0, 5.0, 10.0],
    ),
    # S1.3, "Books".
    "books": Published(
        gates=_ON_IDS,
        training=adam((5e-5, 5e-4), 2048, 100, num_experts=9, k=4) | NARROW,
        gamma=[0.1, 0.5, 1.0, 5.0, 10.0],
        gamma_with_search=0.5,
        entropy_weight=[1.0, 5.0, 10.0, 50.0, 100.0],
    ),
    # S1.3, "Jester": gamma has 0.02, that of COMET+ is 0.01.
    "jester": Published(
        gates=_ON_IDS,
        training=adam((5e-5, 5e-4), 2048, 100, num_experts=16, k=2) | NARROW,
        gamma=[0.001, 0.02, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=0.01,
        entropy_weight=[0.05, 0.1, 0.5, 1.0, 5.0, 10.0],
    ),
    # S1.3, "Digits".
    "digits": Published(
        gates=_ON_IMAGES,
        training=adam((1e-5, 5e-4), 512, 200, num_experts=8, k=2),
        gamma=[0.001, 0.01, 0.1, 1.0],
        gamma_with_search=0.001,
        entropy_weight=[0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
    ),
    # S1.3, "MultiMNIST"; 16 experts in S1.2 and table 3 as well.
    "multi-mnist": Published(
        gates=_ON_IMAGES,
        training=adam((1e-4, 1e-3), 512, 200, num_experts=16, k=4),
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0, 10.0],
        gamma_with_search=0.01,
        entropy_weight=[0.0001, 0.001, 0.01, 0.1, 1.0, 5.0, 10.0],
    ),
    # S1.3, "MultiFashionMNIST", which has 6 experts. S1.2 and table 3 have 5,
    # as the MOESART paper: 5 is taken.
    "multi-fashion-mnist": Published(
        gates=_ON_IMAGES,
        training=adam((1e-4, 1e-3), 512, 200, num_experts=5, k=2),
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0],
        gamma_with_search=0.01,
        entropy_weight=[0.001, 0.01, 0.1, 1.0, 5.0],
    ),
    # S1.3, "CelebA", which does not state the number of experts: 6 in S1.2
    # and table 3.
    "celeba": Published(
        gates=_ON_IMAGES,
        training=adam((1e-4, 1e-3), 512, 100, num_experts=6, k=2),
        gamma=[0.001, 0.01, 0.1, 1.0, 5.0],
        gamma_with_search=5.0,
        entropy_weight=[0.001, 0.01, 0.1, 1.0, 5.0],
    ),
}

# Of every gate with permutation local search, on every data set: its epochs
# (S1.3 of COMET+ and Top-k+, section 5.1 of Hash-r+ too), and zeta (S1.3). The
# authors' configuration draws int(100 * loguniform(0.01, 0.1)), never 10.
LOCAL_SEARCH: JsonObject = {
    "search_epochs": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "search_entropy_weight": [1e-4],
}
