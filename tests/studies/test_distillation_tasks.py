import json
from pathlib import Path

import numpy as np
import pytest

from studies.bert import BertSize
from studies.distillation_tasks import Reader
from studies.distillation_tasks import first_rows
from studies.distillation_tasks import glue_task
from studies.distillation_tasks import squad_task

pytestmark = pytest.mark.once("torch")

READER = Reader(BertSize(1, 1, 4, 8), length=20, vocabulary_size=60)
LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture
def mnli(tmp_path: Path) -> Path:
    rows = [f"the sea {i}\tit is {i}\t{LABELS[i % 3]}" for i in range(6)]
    for split in ("train", "dev_matched", "dev_mismatched"):
        lines = ["sentence1\tsentence2\tgold_label", *rows]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    context = "The Rhine rises in the Alps and ends in the sea."
    answer = {"text": "the Alps", "answer_start": 19}
    questions = [
        {"id": "0", "question": "Where does it rise?", "answers": [answer]},
        {"id": "1", "question": "Where is the Danube?", "answers": []},
    ]
    paragraph = {"context": context, "qas": questions}
    content = {"data": [{"title": "Rhine", "paragraphs": [paragraph]}]}
    for split in ("train", "dev"):
        (tmp_path / f"{split}-v2.0.json").write_text(json.dumps(content))
    return tmp_path


def test_a_task_of_glue_is_encoded_and_measured(mnli: Path) -> None:
    task = glue_task(mnli, "mnli", READER)
    assert task.num_classes == 3
    np.testing.assert_array_equal(task.labels, [0, 1, 2, 0, 1, 2])
    assert {rows.shape for rows in task.inputs.values()} == {(6, 20)}
    right = np.eye(3)[task.labels]
    measured = task.measure(
        # Two of six are right where all are taken for entailment.
        {"dev_matched": right, "dev_mismatched": np.eye(3)[[0] * 6]}
    )
    assert measured == pytest.approx(
        {"accuracy matched": 1.0, "accuracy mismatched": 1 / 3}
    )


def test_squad_is_encoded_and_measured(squad: Path) -> None:
    task = squad_task(squad, "v2.0", READER)
    assert task.num_classes is None
    right = np.eye(20)[task.labels]  # (N, 2, 20)
    assert task.measure({"dev": right}) == {"f1": 100, "exact_match": 100}
    none = np.eye(20)[np.zeros_like(task.labels)]
    assert task.measure({"dev": none}) == {"f1": 50, "exact_match": 50}


def test_few_rows_are_the_first_ones(mnli: Path) -> None:
    task = glue_task(mnli, "mnli", READER)
    few = first_rows(task, 2)
    np.testing.assert_array_equal(few.labels, task.labels[:2])
    np.testing.assert_array_equal(
        few.inputs["token_ids"], task.inputs["token_ids"][:2]
    )
    assert few.development is task.development
