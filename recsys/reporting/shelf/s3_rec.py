"""Common parts of the benchmarks on S3-Rec's files."""

from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.settings import baseline_rows
from recsys.reporting.shelf.settings import default_tower_rows
from recsys.reporting.shelf.settings import tower

# Of figures that are older than this default.
WITHOUT_ID_DROPOUT = (
    " The defaults with attributes were measured before `--tower-id-dropout` "
    "was one of them."
)

_SOURCES = {
    "GRU4Rec": "Zhou et al., S3-Rec, CIKM 2020",
    "SASRec": "Zhou et al., S3-Rec, CIKM 2020",
    "S3-Rec": "Zhou et al., S3-Rec, CIKM 2020",
    "ICLRec": "Chen et al., WWW 2022, released model",
}


def next_review(
    title: str,
    size: str,
    name: str,
    checksums: tuple[str, str],
    published: dict[str, tuple[float, float]],
    repeats: bool = False,
    note: str = "",
) -> Benchmark:
    """Returns the benchmark on one of S3-Rec's files of reviews.

    Args:
        title: What it is.
        size: How many reviews, users and items there are.
        name: What the published files' names begin with.
        checksums: The sha256 of the sequences and of the items' attributes.
        published: Recall@10 and NDCG@10 by model.
        repeats: Whether users have items again, which are misses as targets.
            Defaults to `False`.
        note: What else is to be said of the figures. Nothing by default.
    """
    protocol = {"retrieval_exclude_seen_targets": True} if repeats else {}
    fields = tower(
        tower_temperature=0.05,
        tower_dropout=0.5,
        tower_id_dropout=0.0,
        tower_tokens=1024,
        tower_epochs=16,
        **protocol,
    )
    again = (
        " A target that the user has had before counts as a miss, as in "
        "S3-Rec's code."
    )
    sequences, attributes = checksums
    return Benchmark(
        title=title,
        protocol=f"S3-Rec's file: {size} in the order of time, each user and "
        "item with at least five. The last item of each user is the test, the "
        "one before it the validation; all items are ranked but for those "
        f"that the user has had.{again if repeats else ''}",
        about="S3-Rec and the transformer with attributes see the items' "
        "categories and brands, the others ids alone. The published models "
        f"are not fitted again on the validation split.{note}",
        data_set="sequences",
        files={
            "file": ShelfFile(("sequences.txt", f"{name}.txt"), sequences),
            "attributes": ShelfFile(
                ("item_attributes.json", f"{name}_item2attributes.json"),
                attributes,
            ),
        },
        optional=("attributes",),
        settings=(
            *baseline_rows(
                *("popular", "ease", "spectral"), exclude_seen_targets=repeats
            ),
            *default_tower_rows(**protocol),
            Setting(
                "transformer with attributes, defaults",
                "train",
                {"retrieval": True, **protocol},
                files=("attributes",),
                seeds=3,
            ),
            *(
                Setting(
                    f"transformer{attributes}{refit}",
                    "train",
                    {**fields, "refit": bool(refit)},
                    files=("attributes",) if attributes else (),
                    seeds=3,
                )
                for attributes in ("", " with attributes")
                for refit in ("", ", refit")
            ),
        ),
        published=tuple(
            Published(model, values, _SOURCES[model])
            for model, values in published.items()
        ),
    )
