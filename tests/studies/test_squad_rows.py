import numpy as np
import pytest

from studies.squad import Answer
from studies.squad import Question
from studies.squad import squad_scores
from studies.squad_rows import SquadRows
from studies.squad_rows import marked_answers
from studies.squad_rows import squad_rows
from studies.tokens import SPECIAL_TOKENS
from studies.tokens import bert_tokenizer

pytestmark = pytest.mark.once("torch")

WORDS = [f"w{i}" for i in range(30)]
CONTEXT = " ".join(WORDS)
TOKENIZER = bert_tokenizer(
    [*SPECIAL_TOKENS, "where", "w", *(f"##{i}" for i in range(30))],
    lowercase=True,
)


def question(id: str, first: int | None, last: int = 0) -> Question:
    """One whose answer are the words from `first` to `last`."""
    if first is None:
        return Question(id, "where", CONTEXT, ())
    text = " ".join(WORDS[first : last + 1])
    start = len(" ".join([*WORDS[:first], ""]))
    return Question(id, "where", CONTEXT, (Answer(text, start),))


def rows_of(*questions: Question) -> SquadRows:
    return squad_rows(TOKENIZER, questions, length=24, overlap=4)


def perfect(rows: SquadRows) -> np.ndarray:
    """Scores of a model that knows the spans."""
    return np.eye(24)[rows.spans]  # (N, 2, 24)


def test_long_contexts_take_overlapping_rows() -> None:
    rows = rows_of(question("a", 0))
    # `[CLS] where [SEP]` and `[SEP]` leave 20 of 60 tokens, 4 of them shared.
    assert len(rows.questions) == 4
    starts = [row[row[:, 0] >= 0][0, 0] for row in rows.characters]
    ends = [row[row[:, 0] >= 0][-1, 1] for row in rows.characters]
    assert starts[0] == 0
    assert ends[-1] == len(CONTEXT)
    assert all(b < a for a, b in zip(ends, starts[1:], strict=False))
    np.testing.assert_array_equal(
        rows.tokens.segment_ids[0], [0] * 3 + [1] * 21
    )


def test_answers_are_marked_where_they_are_whole() -> None:
    rows = rows_of(question("a", 3, 4), question("b", None))
    # Two tokens a word, behind three others.
    np.testing.assert_array_equal(rows.spans[0], [9, 12])
    assert not rows.spans[1:].any()


@pytest.mark.parametrize("first", range(0, 29, 4))
def test_spans_read_back_give_the_answers(first: int) -> None:
    questions = [question("a", first, first + 1), question("b", None)]
    rows = rows_of(*questions)
    answers = marked_answers(rows, perfect(rows), questions, may_be_none=True)
    # A row without the answer marks `[CLS]`, no less than the others the
    # answer: the lower of the two scores of `[CLS]` decides.
    assert answers["a"] == f"w{first} w{first + 1}"
    assert answers["b"] == ""
    assert squad_scores(answers, questions)["f1"] == 100


def test_where_there_must_be_an_answer_there_is_one() -> None:
    questions = [question("b", None)]
    rows = rows_of(*questions)
    answers = marked_answers(rows, perfect(rows), questions, may_be_none=False)
    assert answers["b"] in CONTEXT
    assert answers["b"]


def test_an_answer_ends_behind_its_start_and_is_not_too_long() -> None:
    questions = [question("a", 0)]
    rows = rows_of(*questions)
    scores = np.zeros((4, 2, 24))
    scores[0, 0, 11] = 5  # Begins with w4,
    scores[0, 1, 4] = 7  # cannot end with w0,
    scores[0, 1, 22] = 7  # nor with w9, which is 12 tokens on,
    scores[0, 1, 14] = 3  # but with w5.
    answers = marked_answers(rows, scores, questions, False, longest=8)
    assert answers == {"a": "w4 w5"}


def test_questions_are_cut() -> None:
    long = Question("a", "where " * 50, CONTEXT, ())
    rows = rows_of(long)
    np.testing.assert_array_equal(
        rows.tokens.token_ids[0, :8], [2, 5, 5, 5, 5, 5, 5, 3]
    )


def test_too_much_overlap_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 6\] for rows of 24"):
        squad_rows(TOKENIZER, [question("a", 0)], length=24, overlap=7)
