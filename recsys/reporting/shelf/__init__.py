"""The shelf: public benchmarks with published figures, one file each."""

from recsys.reporting.shelf.amazon_beauty import AMAZON_BEAUTY
from recsys.reporting.shelf.amazon_sports import AMAZON_SPORTS
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.gowalla import GOWALLA
from recsys.reporting.shelf.ml_1m_loo import ML_1M_LOO

BENCHMARKS: dict[str, Benchmark] = {
    "ml-1m-loo": ML_1M_LOO,
    "amazon-beauty": AMAZON_BEAUTY,
    "amazon-sports": AMAZON_SPORTS,
    "gowalla": GOWALLA,
}
