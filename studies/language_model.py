import math
from pathlib import Path

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_moe.layers  # noqa: F401, what Keras has to know to load a model
from recsys.errors.reading import reading


def language_model(
    backbone: keras_hub.models.GPT2Backbone, features: keras.Model
) -> keras.Model:
    """Makes a model that predicts the next token.

    Args:
        backbone: Its token embedding, transposed, makes logits of features.
        features: Features of tokens: the backbone, or what was made of it by
            `studies.routed_backbone`.

    Returns:
        A model of `token_ids` and `padding_mask`, `(B, S)`, that returns
        logits `(B, S, vocabulary_size)`, compiled without optimizer.
    """
    logits = backbone.token_embedding(features.output, reverse=True)
    return keras.Model(features.input, logits)


def compile_language_model(model: keras.Model, learning_rate: float) -> None:
    """Compiles with Adam and the mean cross-entropy of a token, in nats."""
    model.compile(
        keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )


def next_tokens(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Splits rows of tokens into what a model sees and what it predicts.

    Args:
        rows: Integer array `(N, S + 1)`, as `studies.tokens.text_rows` makes.

    Returns:
        The inputs, `(N, S)`, without padding, and the labels, `(N, S)`.
    """
    seen = rows[:, :-1]
    inputs = {"token_ids": seen, "padding_mask": np.ones_like(seen)}
    return inputs, rows[:, 1:]


def perplexity(model: keras.Model, rows: np.ndarray, batch_size: int) -> float:
    """Returns the perplexity of the rows' tokens, each given those before it.

    `exp(-1/T sum_t log p(x_t | x_<t))` over the `T` tokens that are predicted.

    Args:
        model: A compiled language model.
        rows: Integer array `(N, S + 1)`.
        batch_size: Rows at a time.
    """
    inputs, labels = next_tokens(rows)
    loss = model.evaluate(inputs, labels, batch_size=batch_size, verbose=0)
    return math.exp(loss)


def load_language_model(file: str | Path) -> keras.Model:
    """Loads a language model that was saved.

    Raises:
        FileNotFoundError: There is no such file.
        FileError: It is no language model of `studies.expert_choice`.
    """
    if not Path(file).exists():
        raise FileNotFoundError(f"{file}: expected a .keras file of a model")
    with reading(file, "a language model of studies.expert_choice"):
        model = keras.saving.load_model(file, compile=False)
        model.get_layer("layer_norm")
    return model


def sentence_classifier(model: keras.Model, num_outputs: int) -> keras.Model:
    """Puts a linear head on what a language model makes of the last token.

    Args:
        model: A language model, whose weights are shared.
        num_outputs: Width of the head: classes, or 1 for a score.

    Returns:
        A model of `token_ids` and `padding_mask`, `(B, S)`, whose padding is
        at the end, that returns `(B, num_outputs)`.
    """
    # A layer of the new model: its operations have names, some of which those
    # below would take once more.
    features = keras.Model(
        model.input, model.get_layer("layer_norm").output, name="features"
    )
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    }
    mask = inputs["padding_mask"]
    followed = ops.pad(mask[:, 1:], [[0, 0], [0, 1]])  # (B, S)
    x = features(inputs)  # (B, S, hidden_dim)
    is_last = ops.cast(mask - followed, x.dtype)[..., None]
    head = keras.layers.Dense(num_outputs, name="head")
    return keras.Model(inputs, head(ops.sum(x * is_last, axis=1)))
