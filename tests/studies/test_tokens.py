import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.tokens import SPECIAL_TOKENS
from studies.tokens import byte_tokenizer
from studies.tokens import preset_tokenizer
from studies.tokens import sentence_rows
from studies.tokens import text_rows
from studies.tokens import word_piece_tokenizer

TEXT = "the cat sat on the mat , the hat and that rat .\n the <unk> bat\n" * 3

BYTES = byte_tokenizer()


@given(st.text())
def test_bytes_hold_any_text(text: str) -> None:
    encoding = BYTES.encode(text, add_special_tokens=False)
    # Text that spells a special token is that token.
    if not any(token in text for token in SPECIAL_TOKENS):
        assert len(encoding.ids) == len(text.encode())
        assert BYTES.decode(encoding.ids) == text


def test_special_tokens_come_first() -> None:
    for tokenizer in (BYTES, word_piece_tokenizer(TEXT, 60)):
        ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
        assert ids == [0, 1, 2, 3, 4]
        assert tokenizer.encode("a").ids[0] == 2
        assert tokenizer.encode("a").ids[-1] == 3
    assert BYTES.get_vocab_size() == 261


def test_word_pieces_are_those_that_are_frequent() -> None:
    tokenizer = word_piece_tokenizer(TEXT, 60, ["<unk>"])
    tokens = tokenizer.encode("the <unk> xat", add_special_tokens=False).tokens
    # No x: the whole word is unknown.
    assert tokens == ["the", "<unk>", "[UNK]"]
    assert tokenizer.decode(tokenizer.encode("that mat").ids) == "that mat"


def test_all_of_the_text_is_known() -> None:
    tokenizer = word_piece_tokenizer(TEXT, 60, ["<unk>"])
    assert "[UNK]" not in tokenizer.encode(TEXT).tokens


def test_one_text_gives_one_vocabulary() -> None:
    first, *others = (
        word_piece_tokenizer(TEXT, 55).get_vocab() for _ in range(5)
    )
    assert len(first) == 55
    assert all(other == first for other in others)


def test_a_vocabulary_must_hold_the_characters() -> None:
    with pytest.raises(ValueError, match=r"`vocabulary_size`.*Received"):
        word_piece_tokenizer(TEXT, 20)


@given(st.text("ab", min_size=4, max_size=30), st.integers(1, 3))
def test_each_token_is_predicted_once(text: str, length: int) -> None:
    rows = text_rows(BYTES, text, length)
    ids = BYTES.encode(text, add_special_tokens=False).ids
    assert rows.shape == ((len(ids) - 1) // length, length + 1)
    predicted = rows[:, 1:].ravel()
    np.testing.assert_array_equal(predicted, ids[1 : 1 + len(predicted)])
    seen = rows[:, :-1].ravel()
    np.testing.assert_array_equal(seen, ids[: len(seen)])


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="Received: length=3, 3 tokens"):
        text_rows(BYTES, "abc", 3)


def test_pairs_by_hand() -> None:
    rows = sentence_rows(BYTES, [["a", "aaaaaa"], ["bb", "b"]], length=8)
    a, b = (BYTES.token_to_id(token) for token in "ab")
    np.testing.assert_array_equal(
        rows.token_ids,
        [[2, a, 3, b, b, 3, 0, 0], [2, a, a, a, a, 3, b, 3]],
    )
    np.testing.assert_array_equal(
        rows.segment_ids, [[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]]
    )
    np.testing.assert_array_equal(rows.padding_mask, rows.token_ids != 0)


def test_sentences_alone() -> None:
    rows = sentence_rows(BYTES, [["a", ""]], length=5)
    a = BYTES.token_to_id("a")
    np.testing.assert_array_equal(
        rows.token_ids, [[2, a, 3, 0, 0], [2, 3, 0, 0, 0]]
    )
    assert not rows.segment_ids.any()


def test_the_tokenizer_of_a_preset(tmp_path: Path) -> None:
    folder = tmp_path / "assets" / "tokenizer"
    folder.mkdir(parents=True)
    tokens = ["<|endoftext|>", "a", "b", "Ġ", "ab", "Ġab"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n")
    tokenizer = preset_tokenizer(tmp_path)
    assert tokenizer.encode("ab ab", add_special_tokens=False).ids == [4, 5]
    assert tokenizer.encode("ab", "a").ids == [4, 0, 1, 0]
    (folder / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"merges\.txt"):
        preset_tokenizer(tmp_path)
