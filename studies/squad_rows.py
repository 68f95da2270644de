"""Questions as rows of tokens, and answers as spans of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding
from tokenizers import Tokenizer

from keras_moe.checks import check_integer
from studies.squad import Question
from studies.tokens import TokenRows

# What a token is that belongs to no context.
_OUTSIDE = (-1, -1)


@dataclass(frozen=True)
class SquadRows:
    """Questions with their contexts, long ones in several overlapping rows.

    Attributes:
        tokens: `[CLS] question [SEP] context [SEP]`, `(N, length)`.
        spans: Int32 array `(N, 2)`, the first and the last token of the first
            answer; both 0, `[CLS]`, where the row has none.
        questions: Int array `(N,)`, the number of the row's question.
        characters: Int array `(N, length, 2)`, where each token of the
            context begins and ends in it; -1 for all other tokens.
    """

    tokens: TokenRows
    spans: np.ndarray
    questions: np.ndarray
    characters: np.ndarray


def squad_rows(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    length: int,
    overlap: int,
) -> SquadRows:
    """Encodes questions.

    Args:
        tokenizer: Encodes texts, and puts `[CLS]` and `[SEP]` where they
            belong.
        questions: The questions; each is cut to `length // 4` tokens.
        length: The tokens of a row, at least 16; BERT's 384.
        overlap: The tokens that a row of a context shares with the one
            before, in `[0, length // 4]`.

    Raises:
        TypeError: If `length` or `overlap` is not an integer.
        ValueError: If one is outside of its range.

    References:
        Devlin et al., BERT, NAACL 2019, sections 4.2 and 4.3.
    """
    check_integer("length", length, 16)
    check_integer("overlap", overlap, 0)
    if overlap > length // 4:
        raise ValueError(
            f"`overlap` must be in [0, {length // 4}] for rows of {length} "
            f"tokens. Received: overlap={overlap}"
        )
    cutting = Tokenizer.from_str(tokenizer.to_str())
    cutting.enable_truncation(length, stride=overlap, strategy="only_second")
    cutting.enable_padding(length=length)
    encodings: list[Encoding] = []
    numbers: list[int] = []
    for number, question in enumerate(questions):
        text = _cut(tokenizer, question.text, length // 4)
        first = cutting.encode(text, question.context)
        rows = [first, *first.overflowing]
        encodings += rows
        numbers += [number] * len(rows)
    characters = np.array([_characters(e) for e in encodings], "int32")
    return SquadRows(
        TokenRows(
            *(
                np.array([getattr(e, name) for e in encodings], "int32")
                for name in ("ids", "type_ids", "attention_mask")
            )
        ),
        np.array(
            [
                _span(row, questions[number])
                for row, number in zip(characters, numbers, strict=True)
            ],
            "int32",
        ),
        np.array(numbers),
        characters.reshape(-1, length, 2),
    )


def marked_answers(
    rows: SquadRows,
    logits: np.ndarray,
    questions: Sequence[Question],
    may_be_none: bool,
    longest: int = 30,
) -> dict[str, str]:
    """Reads the answers out of the scores of first and last tokens.

    The answer is the span with the largest sum of both scores in any row of
    its question. There is none where `[CLS]` scores higher in all of them.

    Args:
        rows: The rows.
        logits: Scores `(N, 2, length)` of first and last tokens.
        questions: The questions that the rows were made of.
        may_be_none: Whether a question may have no answer, as in v2.0.
        longest: The tokens of an answer, at most.

    Returns:
        The answer to each question by its id, `""` for none.

    References:
        Devlin et al., BERT, NAACL 2019, section 4.3, with the threshold 0.
    """
    best = np.full(len(questions), -np.inf)
    none = np.full(len(questions), np.inf)
    answers = {question.id: "" for question in questions}
    for number, characters, (first, last) in zip(
        rows.questions, rows.characters, logits, strict=True
    ):
        none[number] = min(none[number], first[0] + last[0])
        (places,) = np.nonzero(characters[:, 0] >= 0)
        sums = first[places][:, None] + last[places]  # (context, context)
        distances = places - places[:, None]
        sums[(distances < 0) | (distances >= longest)] = -np.inf
        if sums.size and sums.max() > best[number]:
            best[number] = sums.max()
            begin, end = np.unravel_index(sums.argmax(), sums.shape)
            question = questions[number]
            answers[question.id] = question.context[
                characters[places[begin], 0] : characters[places[end], 1]
            ]
    if may_be_none:
        for number, question in enumerate(questions):
            if none[number] > best[number]:
                answers[question.id] = ""
    return answers


def _cut(tokenizer: Tokenizer, text: str, count: int) -> str:
    """The first `count` tokens of a text."""
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    return text[: offsets[count - 1][1]] if len(offsets) > count else text


def _characters(encoding: Encoding) -> list[tuple[int, int]]:
    return [
        offsets if sequence == 1 else _OUTSIDE
        for offsets, sequence in zip(
            encoding.offsets, encoding.sequence_ids, strict=True
        )
    ]


def _span(characters: np.ndarray, question: Question) -> tuple[int, int]:
    """The first and the last token of the answer, `(0, 0)` for none."""
    if not question.answers:
        return 0, 0
    answer = question.answers[0]
    begin, end = answer.start, answer.start + len(answer.text)
    (inside,) = np.nonzero(
        (characters[:, 0] >= 0)
        & (characters[:, 0] < end)
        & (characters[:, 1] > begin)
    )
    # A row may hold the answer in part.
    whole = (
        len(inside) > 0
        and characters[inside[0], 0] <= begin
        and characters[inside[-1], 1] >= end
    )
    return (int(inside[0]), int(inside[-1])) if whole else (0, 0)
