from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.settings import baseline_rows
from recsys.reporting.shelf.settings import two_tower_rows

ML_1M_80_20 = Benchmark(
    title="MovieLens-1M, a fifth of each user's films",
    protocol="1,000,209 ratings of 6,040 users for 3,706 films. 20 % of the "
    "ratings of each user are the test and 8 % the validation split, drawn at "
    "random. All ratings count. All films are ranked but for those that the "
    "user has in the training or the validation split; the targets of a user "
    "are those of the test split.",
    about="A seed is a draw of the splits. Published figures of such splits "
    "differ in what counts and in what is ranked, so none stands here. The "
    "file of the release is checked by its form.",
    data_set="ratings",
    files={},
    options={
        "archive": "ml-1m.zip",
        "file": "ml-1m/ratings.dat",
        "validation_share": 0.08,
        "test_share": 0.2,
    },
    metrics=("user_recall", "user_ndcg"),
    draws=3,
    settings=(
        *baseline_rows(
            *("popular", "item-knn", "ease", "ials", "mf", "spectral"),
            retrieval_label="all",
        ),
        *two_tower_rows(),
    ),
    published=(),
)
