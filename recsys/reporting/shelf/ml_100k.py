"""Common parts of the benchmarks on MovieLens-100K."""

from collections.abc import Mapping

from recsys.files.json_files import JsonMapping
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.settings import baseline_rows
from recsys.reporting.shelf.settings import two_tower_rows

_FILE = ShelfFile(
    ("ml-100k/u.data",),
    "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    archive="ml-100k.zip",
)


def split_of_ml_100k(
    title: str,
    protocol: str,
    options: JsonMapping,
    published: Mapping[str, tuple[float, float]],
    source: str,
    retrieval_label: str = "all",
) -> Benchmark:
    """Returns the benchmark on one way to split MovieLens-100K.

    Args:
        title: What it is.
        protocol: How it is split.
        options: Those of the data set, but for its file.
        published: Recall@10 and NDCG@10 by model.
        source: Where they are published.
        retrieval_label: Which ratings count.
    """
    return Benchmark(
        title=f"MovieLens-100K, {title}",
        protocol=f"100,000 ratings of 943 users for 1,682 films. {protocol} "
        "All films are ranked but for those that the user has in the training "
        "or the validation split; the targets of a user are those of the test "
        "split.",
        about="A seed is a draw of the splits; the published figures are of "
        "another draw, and of another program, whose rules may differ in "
        "detail.",
        data_set="ratings",
        files={"file": _FILE},
        options={"archive": _FILE.archive, **options},
        metrics=("user_recall", "user_ndcg"),
        draws=5,
        settings=(
            *baseline_rows(
                *("popular", "item-knn", "ease", "ials", "mf", "spectral"),
                retrieval_label=retrieval_label,
            ),
            *two_tower_rows(retrieval_label),
        ),
        published=tuple(
            Published(model, values, source)
            for model, values in published.items()
        ),
    )
