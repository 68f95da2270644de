from recsys.reporting.shelf.s3_rec import next_review

AMAZON_BEAUTY = next_review(
    "Amazon Beauty, the next item",
    "198,502 reviews of 22,363 users and 12,101 items",
    "Beauty",
    (
        "226cce9c3105299ca0db9615d7d3fb32b3175e90da43100ae352599f0f0107b8",
        "129e40f67486f6877eff0f5318cfa8530ee8ac23d8b0d1de04e1bb7a2ba0b2d4",
    ),
    {
        "GRU4Rec": (0.0283, 0.0137),
        "SASRec": (0.0605, 0.0318),
        "S3-Rec": (0.0647, 0.0327),
        "ICLRec": (0.0744, 0.0403),
    },
)
