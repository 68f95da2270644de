import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recsys.errors import DataError
from studies.squad import Answer
from studies.squad import Question
from studies.squad import load_squad
from studies.squad import squad_scores

CONTEXT = "The Rhine rises in Switzerland and ends in the North Sea."


def published(*questions: dict[str, Any]) -> dict[str, Any]:
    """The layout of the published files."""
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    article = {"title": "Rhine", "paragraphs": [paragraph]}
    return {"version": "v2.0", "data": [article]}


def asked(id: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "question": "Where does the Rhine rise?",
        "answers": [
            {"text": text, "answer_start": start} for text, start in answers
        ],
        **more,
    }


@pytest.fixture
def squad_file(tmp_path: Path) -> Callable[[Any], Path]:
    def write(content: Any) -> Path:
        file = tmp_path / "dev-v2.0.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        return file

    return write


def test_published_files_are_read(squad_file: Callable[[Any], Path]) -> None:
    plausible = [{"text": "the North Sea", "answer_start": 43}]
    file = squad_file(
        published(
            asked("a", ("Switzerland", 19), ("in Switzerland", 16)),
            asked("b", is_impossible=True, plausible_answers=plausible),
        )
    )
    text = "Where does the Rhine rise?"
    answers = (Answer("Switzerland", 19), Answer("in Switzerland", 16))
    assert load_squad(file) == [
        Question("a", text, CONTEXT, answers),
        Question("b", text, CONTEXT, ()),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": [{"title": "Rhine"}]}, "expected SQuAD's layout"),
        ([1], "expected SQuAD's layout"),
        (published(asked("a"), asked("a")), "Received: id 'a' twice"),
        (published(asked("a", ("Sea", 57))), r"\[0, 57\) .* 'a'. Received: 57"),
    ],
)
def test_broken_files_are_named(
    squad_file: Callable[[Any], Path], content: Any, message: str
) -> None:
    with pytest.raises(DataError, match=f"dev-v2.0.json: .*{message}"):
        load_squad(squad_file(content))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        load_squad(tmp_path / "absent.json")


def answered(id: str, *answers: str) -> Question:
    return Question(id, "?", CONTEXT, tuple(Answer(a, 0) for a in answers))


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("switzerland", ["Switzerland"], 100, 100),
        ("The North Sea!", ["a north  sea"], 100, 100),
        # One of two predicted words, one of one given: 2 · 1 / 3.
        ("in Switzerland", ["Switzerland"], 0, 200 / 3),
        # The best of the annotators' answers.
        ("in Switzerland", ["Sea", "in Switzerland"], 100, 100),
        # A word counts as often as it stands on both sides: 2 · 2 / 5.
        ("sea sea sea", ["sea sea"], 0, 80),
        ("Rhine", ["Switzerland"], 0, 0),
        # No answer, predicted and not; and a text of nothing that counts.
        ("", [], 100, 100),
        ("Rhine", [], 0, 0),
        ("", ["Rhine"], 0, 0),
        ("the", [], 100, 100),
        ("Rhine", ["the", "Rhine"], 100, 100),
    ],
)
def test_metrics_by_hand(
    prediction: str, golds: list[str], exact: float, f1: float
) -> None:
    scores = squad_scores({"q": prediction}, [answered("q", *golds)])
    assert scores == pytest.approx({"exact_match": exact, "f1": f1})


def test_metrics_are_means_over_questions() -> None:
    questions = [answered("a", "Sea"), answered("b", "Rhine")]
    scores = squad_scores({"a": "Sea", "b": "the sea"}, questions)
    assert scores == {"exact_match": 50.0, "f1": 50.0}


def test_a_question_without_prediction_is_named() -> None:
    with pytest.raises(ValueError, match=r"none for 'b', 1 missing"):
        squad_scores({"a": ""}, [answered("a"), answered("b")])
    with pytest.raises(ValueError, match="Received: none"):
        squad_scores({}, [])
