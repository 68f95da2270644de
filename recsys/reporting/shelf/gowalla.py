from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.settings import baseline_rows
from recsys.reporting.shelf.settings import two_tower_rows

_PUBLISHED = {
    "ItemCF": (0.1570, 0.1214),
    "MF, BPR": (0.1627, 0.1378),
    "SLIM": (0.1699, 0.1382),
    "YoutubeDNN": (0.1754, 0.1473),
    "EASE": (0.1765, 0.1467),
    "LightGCN": (0.1820, 0.1547),
    "MF, CCL": (0.1837, 0.1493),
    "UltraGCN": (0.1862, 0.1580),
    "SimpleX": (0.1872, 0.1557),
}

GOWALLA = Benchmark(
    title="Gowalla, places to check in at",
    protocol="LightGCN's split (BARS's Gowalla_m1): 29,858 users and 40,981 "
    "places, 719,081 pairs for training, 91,047 cut off them for validation, "
    "217,242 for the test, in no order. All places are ranked but for those "
    "that the user has in the training or the validation split; the targets "
    "of a user are all of their places in the test split.",
    about="The grids of the spectral filter's exponents are around what is "
    "best on these validation pairs; its minutes are those of nine trials "
    "with 512 vectors. EASE was not fitted here: it holds two matrices of all "
    "pairs of places, 13 GB and 7 GB, and by its 19.5 minutes on 18,357 items "
    "of Amazon Sports takes about four hours of CPU to choose its λ.",
    data_set="item-lists",
    files={
        "train": ShelfFile(
            ("train.txt",),
            "d47e01d060624f389956c0b2f89a1ed8c453ea158631cd2b5320c241f3e1a073",
        ),
        "validation": ShelfFile(
            ("valid.txt",),
            "ddc22c1cd9a7d14fd5cd0c98b1473b614f4323038fef74ae0d28cc9c92a08ba2",
        ),
        "test": ShelfFile(
            ("test.txt",),
            "099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
        ),
    },
    k=20,
    metrics=("user_recall", "user_ndcg"),
    settings=(
        *baseline_rows("popular", "item-knn", "ials", "ease", "spectral"),
        *two_tower_rows(ranker=False),
    ),
    published=tuple(
        Published(model, values, "BARS, Gowalla_m1")
        for model, values in _PUBLISHED.items()
    ),
)
