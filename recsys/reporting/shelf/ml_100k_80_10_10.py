from recsys.reporting.shelf.ml_100k import split_of_ml_100k

ML_100K_80_10_10 = split_of_ml_100k(
    "a tenth of each user's films",
    "10 % of the ratings of each user are the test and 10 % the validation "
    "split, drawn at random. All ratings count.",
    {"by": "user", "validation_share": 0.1, "test_share": 0.1},
    {"BPR (width 64)": (0.2368, 0.2768)},
    "RecBole, quick start",
)
