from recsys.reporting.shelf.ml_100k import split_of_ml_100k

ML_100K_75_25 = split_of_ml_100k(
    "a quarter of each user's films",
    "25 % of the ratings of each user are the test and 7.5 % the validation "
    "split, drawn at random. All ratings count.",
    {"by": "user", "validation_share": 0.075, "test_share": 0.25},
    {
        "BiVAE": (0.2191, 0.4751),
        "BPR": (0.2125, 0.4420),
        "LightGCN": (0.1443, 0.4198),
        "NCF": (0.1808, 0.3961),
        "SAR": (0.1764, 0.3825),
        "SVD": (0.0328, 0.0959),
    },
    "Microsoft Recommenders, README",
)
