"""Simple models, exact and fast, to compare trained ones with.

A model is one file with one class, and one line here. Those that retrieve rank
all items of a catalogue for a user; those that rank predict the tasks.
"""

from recsys.baselines.bias import Bias
from recsys.baselines.biased_mf import BiasedMF
from recsys.baselines.ease import Ease
from recsys.baselines.gbdt import Gbdt
from recsys.baselines.ials import Ials
from recsys.baselines.item_knn import ItemKNN
from recsys.baselines.linear import Linear
from recsys.baselines.mf import MatrixFactorization
from recsys.baselines.popular import Popular
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.spectral import Spectral

RETRIEVAL: dict[str, type[RetrievalBaseline]] = {
    "popular": Popular,
    "item-knn": ItemKNN,
    "ease": Ease,
    "ials": Ials,
    "mf": MatrixFactorization,
    "spectral": Spectral,
}
RANKING: dict[str, type[RankingBaseline]] = {
    "bias": Bias,
    "biased-mf": BiasedMF,
    "linear": Linear,
    "gbdt": Gbdt,
}
BASELINES: dict[str, type[RetrievalBaseline] | type[RankingBaseline]] = {
    **RETRIEVAL,
    **RANKING,
}
