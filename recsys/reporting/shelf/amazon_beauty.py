from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.leave_one_out import BASELINES
from recsys.reporting.shelf.leave_one_out import tower

_S3REC = "Zhou et al., S3-Rec, CIKM 2020"

AMAZON_BEAUTY = Benchmark(
    title="Amazon Beauty, the next item",
    protocol="S3-Rec's file: 198,502 reviews of 22,363 users and 12,101 items "
    "in the order of time, each with at least five. The last item of each "
    "user is the test, the one before it the validation; all items are "
    "ranked but for those that the user has had.",
    about="S3-Rec and the transformer with attributes see the items' "
    "categories and brands, the others ids alone.",
    data_set="sequences",
    files={
        "file": ShelfFile(
            ("sequences.txt", "Beauty.txt"),
            "226cce9c3105299ca0db9615d7d3fb32b3175e90da43100ae352599f0f0107b8",
        ),
        "attributes": ShelfFile(
            ("item_attributes.json", "Beauty_item2attributes.json"),
            "129e40f67486f6877eff0f5318cfa8530ee8ac23d8b0d1de04e1bb7a2ba0b2d4",
        ),
    },
    settings=(
        *BASELINES,
        Setting(
            "transformer",
            "train",
            tower(tower_temperature=0.05, tower_dropout=0.5, tower_tokens=1024),
            seeds=3,
        ),
        Setting(
            "transformer with attributes",
            "train",
            tower(tower_temperature=0.05, tower_dropout=0.5, tower_tokens=1024),
            files=("attributes",),
            seeds=3,
        ),
    ),
    published=(
        Published("GRU4Rec", (0.0283, 0.0137), _S3REC),
        Published("SASRec", (0.0605, 0.0318), _S3REC),
        Published("S3-Rec", (0.0647, 0.0327), _S3REC),
        Published(
            "ICLRec", (0.0744, 0.0403), "Chen et al., WWW 2022, released model"
        ),
    ),
)
