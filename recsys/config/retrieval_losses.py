"""The losses of retrieval, and their corrections, by name."""

# How popular an item is: learned by the vectors, or added to its scores.
CORRECTIONS = IN_TRAINING, IN_SCORES = "training", "scores"

# Text, so that whoever only asks for the names starts without Keras.
RETRIEVAL_LOSSES: dict[str, str] = {
    "softmax": "recsys.retrieval.losses.softmax:Softmax",
    "full-softmax": "recsys.retrieval.losses.full_softmax:FullSoftmax",
    "sampled-softmax": "recsys.retrieval.losses.sampled_softmax:SampledSoftmax",
    "mixed-softmax": "recsys.retrieval.losses.mixed_softmax:MixedSoftmax",
    "gbce": "recsys.retrieval.losses.gbce:Gbce",
    "bpr": "recsys.retrieval.losses.bpr:Bpr",
    "cosine-contrastive": (
        "recsys.retrieval.losses.cosine_contrastive:CosineContrastive"
    ),
}
