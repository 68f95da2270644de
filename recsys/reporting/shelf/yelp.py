from recsys.reporting.shelf.s3_rec import WITHOUT_ID_DROPOUT
from recsys.reporting.shelf.s3_rec import next_review

YELP = next_review(
    "Yelp, the next place",
    "316,354 reviews of 30,431 users and 20,033 places",
    "Yelp",
    (
        "724b219106b81dd2349027da997334ddb6da9fe2f152ad6e0d97a93170f7caed",
        "f25acd5e1e680e0b22fd4e3f4fb6be4b2a7461e9222610616e3e1ee6702dd58d",
    ),
    {
        "GRU4Rec": (0.0263, 0.0134),
        "SASRec": (0.0274, 0.0136),
        "S3-Rec": (0.0341, 0.0168),
        "ICLRec": (0.0409, 0.0207),
    },
    repeats=True,
    note=WITHOUT_ID_DROPOUT,
)
