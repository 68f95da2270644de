"""A task whose labels a Transformer has given, so that it can be taught."""

from dataclasses import dataclass

import keras
import numpy as np

from keras_moe.checks import check_integer
from studies.bert import BertSize
from studies.bert import random_bert
from studies.bert import with_head

VOCABULARY_SIZE = 64
LENGTH = 16
CLASSES = 2
# The standard deviation of the difference of a teacher's two logits.
CERTAINTY = 4.0


@dataclass(frozen=True)
class PlantedTask:
    """Random sequences of tokens, labelled by a random teacher.

    Attributes:
        backbone: The teacher.
        teacher: The same with its head: `"logits"` `(b, 2)` and `"states"`.
        train_tokens: Int32 array `(N, LENGTH)`.
        train_labels: Int32 array `(N,)`, some of them wrong.
        test_tokens: Int32 array `(M, LENGTH)`.
        test_labels: Int32 array `(M,)`, all as the teacher has them.
    """

    backbone: keras.Model
    teacher: keras.Model
    train_tokens: np.ndarray
    train_labels: np.ndarray
    test_tokens: np.ndarray
    test_labels: np.ndarray


def planted_task(
    size: BertSize,
    num_train: int = 1_000,
    num_test: int = 4_000,
    wrong: float = 0.4,
    seed: int = 0,
) -> PlantedTask:
    """Draws a teacher, and sequences that it labels.

    The teacher's weights have the variance 1 / fan-in, so that its
    feed-forward layers matter; both classes are equally frequent, and it is
    certain of most. Labels say little: they are few, and many are wrong. A
    student that sees the teacher's layers sees all that there is to know.

    Args:
        size: The shape of the teacher.
        num_train: Sequences to train on.
        num_test: Sequences to measure on.
        wrong: Share of the labels in training that are the other class's.
        seed: Of the teacher and of all draws.
    """
    check_integer("num_train", num_train, 1)
    check_integer("num_test", num_test, 1)
    keras.utils.set_random_seed(seed)
    generator = np.random.default_rng(seed)
    backbone = random_bert(size, VOCABULARY_SIZE, LENGTH)
    teacher = with_head(backbone, CLASSES, size.dropout)
    for weight in teacher.weights:
        if weight.path.endswith(("kernel", "embeddings")):
            _draw_again(weight, generator)
    tokens = generator.integers(
        VOCABULARY_SIZE, size=(num_train + num_test, LENGTH)
    ).astype("int32")
    head = teacher.get_layer("head")
    margins = _margins(teacher, tokens)
    scale, middle = CERTAINTY / margins.std(), np.median(margins)
    head.kernel.assign(head.kernel * scale)
    # Half of all sequences on each side.
    head.bias.assign(np.array([0, -middle * scale], "float32"))
    labels = (margins > middle).astype("int32")
    train = labels[:num_train]
    flipped = generator.random(num_train) < wrong
    return PlantedTask(
        backbone,
        teacher,
        tokens[:num_train],
        np.where(flipped, 1 - train, train).astype("int32"),
        tokens[num_train:],
        labels[num_train:],
    )


def as_inputs(tokens: np.ndarray) -> dict[str, np.ndarray]:
    """What a BERT takes for sequences `(N, s)` of one sentence, unpadded."""
    return {
        "token_ids": tokens,
        "segment_ids": np.zeros_like(tokens),
        "padding_mask": np.ones_like(tokens),
    }


def _draw_again(weight: keras.Variable, generator: np.random.Generator) -> None:
    # An embedding has one input that is 1.
    is_kernel = weight.path.endswith("kernel")
    fan_in = np.prod(weight.shape[:-1]) if is_kernel else 1
    weight.assign(generator.normal(0, fan_in**-0.5, weight.shape))


def _margins(teacher: keras.Model, tokens: np.ndarray) -> np.ndarray:
    """By how much the teacher prefers class 1, `(N,)`."""
    outputs = teacher.predict(as_inputs(tokens), batch_size=256, verbose=0)
    logits = outputs["logits"]
    return np.asarray(logits[:, 1] - logits[:, 0])
