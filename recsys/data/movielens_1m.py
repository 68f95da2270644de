from recsys.data.movielens import MovieLens

movielens_1m = MovieLens(
    name="movielens-1m",
    archive="ml-1m.zip",
    member="ml-1m/ratings.dat",
    separator="::",
    counts={
        "ratings": 1_000_209,
        "users": 6_040,
        "movies": 3_706,
        "train": 1_574_602,
        "validation": 224_944,
        "test": 199_950,
    },
)
