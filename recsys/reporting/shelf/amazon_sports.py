from recsys.reporting.shelf.s3_rec import WITHOUT_ID_DROPOUT
from recsys.reporting.shelf.s3_rec import next_review

AMAZON_SPORTS = next_review(
    "Amazon Sports, the next item",
    "296,337 reviews of 35,598 users and 18,357 items",
    "Sports_and_Outdoors",
    (
        "2a095e0648872beb9982408958290f5d655db5be2911c3756b5446de9f0b8de2",
        "7fb10733ac4f1811384a52144cdefa7fcc7536fa80a7232c5da9bd789155c34b",
    ),
    {
        "GRU4Rec": (0.0204, 0.0110),
        "SASRec": (0.0350, 0.0192),
        "S3-Rec": (0.0385, 0.0204),
        "ICLRec": (0.0437, 0.0238),
    },
    note=WITHOUT_ID_DROPOUT,
)
