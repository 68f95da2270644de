import keras
import numpy as np
import pytest

from studies.bert import BertSize
from studies.distillation_tasks import Task
from studies.distillation_tasks import planted
from studies.students import Recipe
from studies.students import Teacher
from studies.students import prepare_teacher
from studies.students import train_student

pytestmark = pytest.mark.once("torch")

SIZE = BertSize(1, 2, 8, 32, 0.0)
RECIPE = Recipe(num_experts=2, epochs=1, learning_rate=0.003, dropout=0.0)


@pytest.fixture(scope="module")
def task() -> Task:
    return planted(SIZE, num_train=64, num_test=64, seed=0)


@pytest.fixture(scope="module")
def teacher(task: Task) -> Teacher:
    return prepare_teacher(task, RECIPE)


def test_a_frozen_teacher_says_what_the_teacher_says(
    task: Task, teacher: Teacher
) -> None:
    ours = teacher.model.predict(task.inputs, verbose=0)
    theirs = teacher.frozen.predict(task.inputs, verbose=0)
    np.testing.assert_allclose(ours["logits"], theirs["logits"], atol=1e-5)


def test_a_teacher_shares_no_path_with_its_students(teacher: Teacher) -> None:
    """PyTorch's gradients would add up over the steps where it did."""
    paths = {variable.path for variable in teacher.model.variables}
    assert not paths & {variable.path for variable in teacher.frozen.variables}
    assert not teacher.frozen.trainable_variables


@pytest.mark.slow
def test_a_student_of_all_neurons_learns_by_distillation(
    task: Task, teacher: Teacher
) -> None:
    before = teacher.frozen.get_weights()
    keras.utils.set_random_seed(0)
    recipe = Recipe(
        num_experts=2,
        epochs=10,
        learning_rate=0.003,
        dropout=0.0,
        batch_size=16,
    )
    measures = train_student("hash", 100.0, teacher, task, recipe)
    # The labels alone, a fifth of them wrong, leave it far below.
    assert measures["last"] > 0.9
    assert measures["neurons"] == 16
    for found, expected in zip(
        teacher.frozen.get_weights(), before, strict=True
    ):
        np.testing.assert_array_equal(found, expected)
