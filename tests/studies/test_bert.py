from pathlib import Path

import keras
import numpy as np
import pytest
from keras_hub.models import BertBackbone
from keras_hub.models import BertTokenizer

from recsys.errors import FileError
from studies.bert import BertSize
from studies.bert import copy_bert
from studies.bert import load_bert
from studies.bert import random_bert
from studies.bert import with_head
from studies.tokens import SPECIAL_TOKENS
from studies.tokens import sentence_rows

pytestmark = pytest.mark.once("torch")

VOCABULARY = [*SPECIAL_TOKENS, "the", "sea", "##s", "rise", "."]
SIZE = BertSize(1, 2, 4, 8)


def bert() -> BertBackbone:
    keras.utils.set_random_seed(0)
    return random_bert(SIZE, len(VOCABULARY), max_length=8)


def rows() -> dict[str, np.ndarray]:
    return {
        "token_ids": np.array([[2, 5, 6, 3, 0], [2, 8, 9, 7, 3]]),
        "segment_ids": np.zeros((2, 5), "int32"),
        "padding_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    }


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    """A preset's folder as keras-hub writes it, of random weights."""
    folder = tmp_path / "preset"
    bert().save_to_preset(str(folder))
    BertTokenizer(VOCABULARY, lowercase=True).save_to_preset(str(folder))
    return folder


def test_a_preset_is_loaded_from_its_folder(preset: Path) -> None:
    backbone, tokenizer = load_bert(preset)
    for found, expected in zip(
        backbone.get_weights(), bert().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    encoded = sentence_rows(tokenizer, [["Seas rise."], ["The sea"]], 9)
    np.testing.assert_array_equal(
        encoded.token_ids, [[2, 6, 7, 8, 9, 3, 5, 6, 3]]
    )
    np.testing.assert_array_equal(
        encoded.segment_ids, [[0, 0, 0, 0, 0, 0, 1, 1, 1]]
    )


def test_what_is_no_preset_is_named(tmp_path: Path, preset: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent: expected the folder"):
        load_bert(tmp_path / "absent")
    (preset / "config.json").write_text("{}")
    with pytest.raises(FileError, match="expected a keras-hub preset"):
        load_bert(preset)


def test_a_head_tells_classes_and_shows_every_layer() -> None:
    outputs = with_head(bert(), num_classes=3, dropout=0.1)(rows())
    assert tuple(outputs["logits"].shape) == (2, 3)
    assert [tuple(s.shape) for s in outputs["states"]] == [(2, 5, 4)] * 2
    expected = bert()(rows())["sequence_output"]
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(outputs["states"][-1]),
        keras.ops.convert_to_numpy(expected),
        rtol=1e-5,
    )


def test_answers_neither_start_nor_end_in_padding() -> None:
    outputs = with_head(bert(), num_classes=None, dropout=0.1)(rows())
    scores = keras.ops.convert_to_numpy(outputs["logits"])
    assert scores.shape == (2, 2, 5)
    impossible = scores < -1e8
    np.testing.assert_array_equal(
        impossible, np.repeat(rows()["padding_mask"][:, None] == 0, 2, axis=1)
    )


def test_a_copy_has_weights_of_its_own() -> None:
    original = bert()
    copied = copy_bert(original)
    copied.weights[0].assign(keras.ops.zeros(copied.weights[0].shape))
    for found, expected in zip(
        original.get_weights(), bert().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
