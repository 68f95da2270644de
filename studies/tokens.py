"""Text as numbers of tokens: bytes, or word pieces found in a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordPieceTrainer

from recsys.errors.reading import reading
from studies.published_files import find_file

# As BERT's vocabularies have them, from 0 on: padding is 0.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class TokenRows:
    """Sentences, or pairs of them, as rows of tokens of one length.

    Attributes:
        token_ids: Int32 array `(N, length)`, 0 behind the end.
        segment_ids: Int32 array `(N, length)`: 1 for the second sentence of
            a pair, 0 elsewhere.
        padding_mask: Int32 array `(N, length)`: 1 for tokens, 0 for padding.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    padding_mask: np.ndarray


def byte_tokenizer() -> Tokenizer:
    """Makes a tokenizer whose tokens are the bytes of UTF-8.

    Returns:
        A tokenizer of 261 tokens: `SPECIAL_TOKENS`, which are 0 to 4, and
        the 256 bytes. It puts `[CLS]` before a sentence and `[SEP]` behind
        each.

    Example:
        >>> tokenizer = byte_tokenizer()
        >>> tokenizer.decode(tokenizer.encode("né").ids)
        'né'
    """
    tokens = [*SPECIAL_TOKENS, *sorted(ByteLevel.alphabet())]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    return _with_special_tokens(tokenizer, SPECIAL_TOKENS)


def word_piece_tokenizer(
    text: str, vocabulary_size: int, whole_words: Sequence[str] = ()
) -> Tokenizer:
    """Makes a tokenizer whose vocabulary is learned from a text.

    Words are separated at spaces and punctuation. The same text gives the
    same vocabulary.

    Args:
        text: What the vocabulary is computed from.
        vocabulary_size: How many tokens, `SPECIAL_TOKENS`, which are 0 to 4,
            included.
        whole_words: Words that are a token each, whatever punctuation they
            hold, such as `"<unk>"`. Defaults to none.

    Returns:
        A tokenizer of at most `vocabulary_size` tokens; fewer where the text
        has no more pieces. It puts `[CLS]` before a sentence and `[SEP]`
        behind each.

    Raises:
        ValueError: `vocabulary_size` is below the number of special tokens
            and twice that of the text's characters, which are tokens at the
            start of a word and within it.

    References:
        Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers
        for Language Understanding, NAACL 2019, section 3.
    """
    special = [*SPECIAL_TOKENS, *whole_words]
    characters = sorted(set("".join(text.split())))
    # The trainer numbers pieces within words in an order that differs from
    # call to call, and breaks ties by it: given first, they have theirs.
    first = [*special, *characters, *(f"##{c}" for c in characters)]
    if vocabulary_size < len(first):
        raise ValueError(
            "`vocabulary_size` must hold the special tokens and each character "
            f"of the text twice, {len(first)} tokens. Received: "
            f"vocabulary_size={vocabulary_size}"
        )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.train_from_iterator(
        text.splitlines(),
        WordPieceTrainer(
            vocab_size=vocabulary_size,
            special_tokens=first,
            show_progress=False,
        ),
    )
    # Anew, for the characters are no special tokens in what is encoded.
    learned = WordPiece(tokenizer.get_vocab(), unk_token="[UNK]")
    tokenizer = Tokenizer(learned)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    return _with_special_tokens(tokenizer, special)


def bert_tokenizer(vocabulary: Sequence[str], lowercase: bool) -> Tokenizer:
    """Makes a tokenizer of the vocabulary of a BERT that was trained before.

    Args:
        vocabulary: The tokens in the order of their numbers, among them those
            of `SPECIAL_TOKENS`.
        lowercase: Whether texts are put into lower case, and lose accents,
            as the vocabularies want it that are called uncased.

    Returns:
        A tokenizer that puts `[CLS]` before a sentence and `[SEP]` behind
        each.

    Example:
        >>> vocabulary = [*SPECIAL_TOKENS, "sea", "##s"]
        >>> bert_tokenizer(vocabulary, lowercase=True).encode("Seas").tokens
        ['[CLS]', 'sea', '##s', '[SEP]']
    """
    numbers = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    return _with_special_tokens(tokenizer, SPECIAL_TOKENS)


def _with_special_tokens(
    tokenizer: Tokenizer, special: Sequence[str]
) -> Tokenizer:
    tokenizer.add_special_tokens(list(special))
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[
            (token, tokenizer.token_to_id(token))
            for token in ("[CLS]", "[SEP]")
        ],
    )
    return tokenizer


def text_rows(tokenizer: Tokenizer, text: str, length: int) -> np.ndarray:
    """Cuts a text into rows of tokens, for the prediction of the next one.

    A row ends with the token that the next one begins with, so that each
    token but the first of the text is predicted once. What is left at the end
    is left out.

    Args:
        tokenizer: Encodes the text.
        text: The text.
        length: How many tokens of a row are predicted, at least 1.

    Returns:
        Int32 array `(N, length + 1)`: a model sees `rows[:, :-1]` and
        predicts `rows[:, 1:]`.

    Raises:
        ValueError: `length` is below 1, or the text has not more tokens.

    Example:
        >>> text_rows(byte_tokenizer(), "aabba", length=2) - 5 - 64
        array([[0, 0, 1],
               [1, 1, 0]], dtype=int32)
    """
    encoding = tokenizer.encode(text, add_special_tokens=False)
    ids = np.array(encoding.ids, "int32")
    if not 1 <= length < len(ids):
        raise ValueError(
            "`length` must be from 1 to below the text's number of tokens. "
            f"Received: length={length}, {len(ids)} tokens"
        )
    windows = np.lib.stride_tricks.sliding_window_view(ids, length + 1)
    return windows[::length].copy()


def sentence_rows(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], length: int
) -> TokenRows:
    """Encodes sentences, or pairs, padded or cut to one length.

    A row is `[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]`; the longer sentence
    of a pair is cut first.

    Args:
        tokenizer: Encodes them.
        sentences: One column of sentences, or two columns of pairs.
        length: The number of tokens, at least 5.

    Returns:
        The rows.

    Raises:
        ValueError: `length` is below 5, too short for a pair.

    Example:
        >>> rows = sentence_rows(byte_tokenizer(), [["a"], ["b"]], length=8)
        >>> rows.segment_ids
        array([[0, 0, 0, 1, 1, 0, 0, 0]], dtype=int32)
    """
    if length < 5:
        raise ValueError(
            f"`length` must be at least 5. Received: length={length}"
        )
    # The tokenizer of the caller stays without padding.
    padding = Tokenizer.from_str(tokenizer.to_str())
    padding.enable_truncation(length)
    padding.enable_padding(length=length)
    columns = list(zip(*sentences, strict=True))
    encodings = padding.encode_batch(
        columns if len(sentences) > 1 else [text for (text,) in columns]
    )
    return TokenRows(
        *(
            np.array(
                [getattr(encoding, name) for encoding in encodings], "int32"
            ).reshape(-1, length)
            for name in ("ids", "type_ids", "attention_mask")
        )
    )


def preset_tokenizer(preset: str | Path) -> Tokenizer:
    """Reads the byte-pair tokenizer of a GPT-2 preset of keras-hub.

    Args:
        preset: The preset's folder, with `assets/tokenizer/vocabulary.json`
            and `merges.txt` beside it.

    Returns:
        The tokenizer. It puts `<|endoftext|>`, which must be in the
        vocabulary, behind each sentence.

    Raises:
        FileNotFoundError: The preset has no such files.
        FileError: They are broken.
    """
    folder = Path(preset) / "assets" / "tokenizer"
    files = [find_file(folder, [n]) for n in ("vocabulary.json", "merges.txt")]
    with reading(folder, "a vocabulary and merges of byte pairs"):
        tokenizer = Tokenizer(BPE.from_file(*map(str, files)))
        end = "<|endoftext|>"
        tokenizer.add_special_tokens([end])
        tokenizer.post_processor = TemplateProcessing(
            single=f"$A {end}",
            pair=f"$A {end} $B:1 {end}:1",
            special_tokens=[(end, tokenizer.token_to_id(end))],
        )
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer
