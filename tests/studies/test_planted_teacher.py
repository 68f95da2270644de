import numpy as np
import pytest

from studies.bert import BertSize
from studies.planted_teacher import as_inputs
from studies.planted_teacher import planted_task

pytestmark = pytest.mark.once("torch")

SIZE = BertSize(1, 1, 8, 16)


def test_the_teacher_knows_every_label_of_the_test() -> None:
    task = planted_task(SIZE, num_train=50, num_test=200, wrong=0.3)
    outputs = task.teacher.predict(as_inputs(task.test_tokens), verbose=0)
    given = outputs["logits"].argmax(axis=-1)
    np.testing.assert_array_equal(given, task.test_labels)
    # As frequent as each other among all sequences.
    assert 0.3 < task.test_labels.mean() < 0.7


def test_some_labels_in_training_are_wrong() -> None:
    right = planted_task(SIZE, num_train=500, num_test=10, wrong=0.0)
    task = planted_task(SIZE, num_train=500, num_test=10, wrong=0.2)
    np.testing.assert_array_equal(task.train_tokens, right.train_tokens)
    share = (task.train_labels != right.train_labels).mean()
    assert share == pytest.approx(0.2, abs=0.06)


def test_a_seed_decides_everything() -> None:
    task, same, other = (
        planted_task(SIZE, 20, 20, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(task.test_labels, same.test_labels)
    assert (task.test_tokens != other.test_tokens).any()
