"""SQuAD v1.1 and v2.0: the published files, and the official metrics."""

import re
import string
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.files.json_files import read_json

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Answer:
    """An answer, as a part of its question's context.

    Args:
        text: The words of the context that answer the question.
        start: Index of their first character in the context.
    """

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question on a paragraph.

    Args:
        id: What predictions are matched by.
        text: The question.
        context: The paragraph.
        answers: What annotators gave as answers; none where the paragraph
            does not answer the question, which is so in v2.0 alone.
    """

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]


def load_squad(file: str | Path) -> list[Question]:
    """Reads a file such as `train-v1.1.json` or `dev-v2.0.json`.

    Args:
        file: The JSON file, as published.

    Returns:
        The questions, in the order of the file.

    Raises:
        DataError: The file is not laid out as SQuAD is, two questions share an
            id, or an answer begins outside of its context.
        FileNotFoundError: There is no such file.

    References:
        Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension
        of Text, EMNLP 2016; Rajpurkar et al., Know What You Don't Know:
        Unanswerable Questions for SQuAD, ACL 2018.
    """
    file = Path(file)
    content = read_json(file, DataError)
    with reading(file, "SQuAD's layout of a JSON file", DataError):
        questions = list(_questions(content))
    _check(questions, file)
    return questions


def _questions(content: Mapping[str, Any]) -> Iterator[Question]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield Question(
                    question["id"],
                    question["question"],
                    paragraph["context"],
                    tuple(
                        Answer(answer["text"], int(answer["answer_start"]))
                        for answer in question["answers"]
                    ),
                )


def _check(questions: Sequence[Question], file: Path) -> None:
    counts = Counter(question.id for question in questions)
    for question in questions:
        if counts[question.id] > 1:
            raise DataError.at(
                file, "an id for each question", f"id {question.id!r} twice"
            )
        for answer in question.answers:
            if not 0 <= answer.start < len(question.context):
                raise DataError.at(
                    file,
                    f"an answer_start in [0, {len(question.context)}) for the "
                    f"question {question.id!r}",
                    str(answer.start),
                )


def squad_scores(
    predictions: Mapping[str, str], questions: Iterable[Question]
) -> dict[str, float]:
    """Computes the official metrics.

    Both are, for each question, those of the annotators' answer that comes
    off best; a question without an answer wants the empty text.

    Args:
        predictions: The predicted answer to each question, by its id.
        questions: The questions to average over, at least one.

    Returns:
        `"exact_match"` and `"f1"`, in percent.

    Raises:
        ValueError: There is no question, or one without a prediction.

    Example:
    >>> answers = (Answer("fox", 11),)
    >>> question = Question("1", "Who?", "It was the fox.", answers)
    >>> squad_scores({"1": "The fox!"}, [question])
    {'exact_match': 100.0, 'f1': 100.0}

    References:
        The evaluation scripts of v1.1 and v2.0.
    """
    questions = list(questions)
    if not questions:
        raise ValueError("`questions` must hold at least one. Received: none")
    missing = [q.id for q in questions if q.id not in predictions]
    if missing:
        raise ValueError(
            "`predictions` must have the id of every question. Received: "
            f"none for {missing[0]!r}, {len(missing)} missing in all"
        )
    exact = f1 = 0.0
    for question in questions:
        prediction = _words(predictions[question.id])
        # The official script of v2.0 passes over answers of articles and
        # punctuation alone.
        golds = [_words(answer.text) for answer in question.answers]
        golds = [gold for gold in golds if gold] or [[]]
        exact += max(prediction == gold for gold in golds)
        f1 += max(_f1(prediction, gold) for gold in golds)
    count = len(questions)
    return {"exact_match": 100 * exact / count, "f1": 100 * f1 / count}


def _words(text: str) -> list[str]:
    """The words that count: no case, punctuation or articles."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return _ARTICLES.sub(" ", text).split()


def _f1(prediction: list[str], gold: list[str]) -> float:
    if not prediction or not gold:
        return float(prediction == gold)
    shared = sum((Counter(prediction) & Counter(gold)).values())
    return 2 * shared / (len(prediction) + len(gold))
