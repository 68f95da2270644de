from recsys.reporting.shelf.ml_100k import split_of_ml_100k

ML_100K_80_20 = split_of_ml_100k(
    "films rated 4 or 5",
    "20 % of all ratings are the test and 8 % the validation split, drawn at "
    "random. Ratings of 4 and 5 count, in all splits; the others are left "
    "out.",
    {"by": "row", "validation_share": 0.08, "test_share": 0.2},
    {"BPR (width 10)": (0.1195, 0.1500)},
    "Cornac, README",
    retrieval_label="like",
)
