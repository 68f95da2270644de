"""The shelf: public benchmarks with published figures, one file each."""

from recsys.reporting.shelf.amazon_beauty import AMAZON_BEAUTY
from recsys.reporting.shelf.amazon_sports import AMAZON_SPORTS
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.census import CENSUS
from recsys.reporting.shelf.gowalla import GOWALLA
from recsys.reporting.shelf.ml_1m_80_20 import ML_1M_80_20
from recsys.reporting.shelf.ml_1m_loo import ML_1M_LOO
from recsys.reporting.shelf.ml_100k_75_25 import ML_100K_75_25
from recsys.reporting.shelf.ml_100k_80_10_10 import ML_100K_80_10_10
from recsys.reporting.shelf.ml_100k_80_20 import ML_100K_80_20
from recsys.reporting.shelf.movielens_1m import MOVIELENS_1M
from recsys.reporting.shelf.yelp import YELP

BENCHMARKS: dict[str, Benchmark] = {
    "ml-1m-loo": ML_1M_LOO,
    "amazon-beauty": AMAZON_BEAUTY,
    "amazon-sports": AMAZON_SPORTS,
    "yelp": YELP,
    "gowalla": GOWALLA,
    "movielens-1m": MOVIELENS_1M,
    "census": CENSUS,
    "ml-1m-80-20": ML_1M_80_20,
    "ml-100k-75-25": ML_100K_75_25,
    "ml-100k-80-10-10": ML_100K_80_10_10,
    "ml-100k-80-20": ML_100K_80_20,
}
