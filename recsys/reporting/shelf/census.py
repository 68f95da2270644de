from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting

CENSUS = Benchmark(
    title="Census-Income (KDD), income and never married",
    protocol="The two tasks of the MMoE paper's first group (Ma et al., KDD "
    "2018): 199,523 people for training, the test file halved at random into "
    "validation and test.",
    about="The published rows are of the whole test file, the mean over the "
    "epochs of a training. The files of the release are checked by their "
    "counts. On the test file alone, split in three, benchmarks/README.md has "
    "boosted trees and our models side by side.",
    data_set="census-income",
    files={},
    measured="tasks",
    metrics=("never_married auc", "income auc"),
    settings=(
        *(
            Setting(name, "baseline", {"model": name})
            for name in ("linear", "gbdt")
        ),
        Setting(
            "shared bottom",
            "train",
            {"architecture": "shared-bottom"},
            seeds=3,
        ),
        Setting("MMoE, all experts", "train", {"gate": "softmax"}, seeds=3),
        Setting("defaults", "train", seeds=3),
    ),
    published=(
        Published("MMoE", (0.99324, 0.94465), "PaddleRec, models/multitask"),
    ),
)
