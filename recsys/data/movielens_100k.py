from recsys.data.movielens import MovieLens

movielens_100k = MovieLens(
    name="movielens-100k",
    archive="ml-100k.zip",
    member="ml-100k/u.data",
    separator="\t",
    counts={
        "ratings": 100_000,
        "users": 943,
        "movies": 1_682,
        "train": 157_500,
        "validation": 22_500,
        "test": 20_000,
    },
)
