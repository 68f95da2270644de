from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.leave_one_out import BASELINES
from recsys.reporting.shelf.leave_one_out import tower

_S3REC = "Zhou et al., S3-Rec, CIKM 2020"

AMAZON_SPORTS = Benchmark(
    title="Amazon Sports, the next item",
    protocol="S3-Rec's file: 296,337 reviews of 35,598 users and 18,357 items "
    "in the order of time, each with at least five. The last item of each "
    "user is the test, the one before it the validation; all items are "
    "ranked but for those that the user has had.",
    about="S3-Rec and the transformer with attributes see the items' "
    "categories and brands, the others ids alone.",
    data_set="sequences",
    files={
        "file": ShelfFile(
            ("sequences.txt", "Sports_and_Outdoors.txt"),
            "2a095e0648872beb9982408958290f5d655db5be2911c3756b5446de9f0b8de2",
        ),
        "attributes": ShelfFile(
            (
                "item_attributes.json",
                "Sports_and_Outdoors_item2attributes.json",
            ),
            "7fb10733ac4f1811384a52144cdefa7fcc7536fa80a7232c5da9bd789155c34b",
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
        Published("GRU4Rec", (0.0204, 0.0110), _S3REC),
        Published("SASRec", (0.0350, 0.0192), _S3REC),
        Published("S3-Rec", (0.0385, 0.0204), _S3REC),
        Published(
            "ICLRec", (0.0437, 0.0238), "Chen et al., WWW 2022, released model"
        ),
    ),
)
