import keras_hub
import numpy as np
import pytest
import scipy.special
from keras import ops

from studies.language_model import compile_language_model
from studies.language_model import language_model
from studies.language_model import next_tokens
from studies.language_model import perplexity

pytestmark = pytest.mark.once("torch")


def test_perplexity_is_that_of_numpy(rng: np.random.Generator) -> None:
    backbone = keras_hub.models.GPT2Backbone(9, 1, 2, 8, 8, 0.0, 4)
    model = language_model(backbone, backbone)
    compile_language_model(model, 0.01)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    rows = rng.integers(9, size=(5, 5), dtype="int32")
    logits = ops.convert_to_numpy(model(next_tokens(rows)[0]))
    assert logits.shape == (5, 4, 9)
    log_p = scipy.special.log_softmax(logits, axis=-1)
    chosen = np.take_along_axis(log_p, rows[:, 1:, None], axis=-1)
    # Two batches, of which the last is smaller.
    result = perplexity(model, rows, batch_size=3)
    assert result == pytest.approx(np.exp(-chosen.mean()), rel=1e-4)


def test_what_is_seen_and_what_is_predicted() -> None:
    inputs, labels = next_tokens(np.array([[1, 2, 3]]))
    assert inputs["token_ids"].tolist() == [[1, 2]]
    assert inputs["padding_mask"].tolist() == [[1, 1]]
    assert labels.tolist() == [[2, 3]]
