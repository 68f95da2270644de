from typing import Any

import keras
import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.special import softmax

from studies.layerwise_distillation import LayerwiseDistillation
from studies.layerwise_distillation import prediction_divergence
from studies.layerwise_distillation import state_error

pytestmark = pytest.mark.once("torch")


def outputs(seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        values = generator.standard_normal(shape)
        return keras.ops.convert_to_tensor(values, "float32")

    return {
        "logits": draw(2, 3),
        "states": [draw(2, 4, 5) for _ in range(2)],
    }


MASK = np.array([[1, 1, 1, 1], [1, 0, 0, 0]])


def test_divergence_is_the_mean_of_both_directions() -> None:
    a, b = outputs(0)["logits"], outputs(1)["logits"]
    p, q = (softmax(np.asarray(logits), axis=-1) for logits in (a, b))
    expected = (rel_entr(p, q) + rel_entr(q, p)).sum(axis=-1).mean() / 2
    assert float(prediction_divergence(a, b)) == pytest.approx(
        expected, rel=1e-5
    )


def test_padding_does_not_count() -> None:
    (a, _), (b, _) = outputs(0)["states"], outputs(1)["states"]
    expected = (np.asarray(a - b) ** 2)[MASK > 0].mean()
    assert float(state_error(a, b, MASK)) == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_the_weighted_sum() -> None:
    student, teacher = outputs(0), outputs(1)
    layer = LayerwiseDistillation(weight=3.0)
    logits = layer(student, teacher, MASK, training=True)
    np.testing.assert_array_equal(
        np.asarray(logits), np.asarray(student["logits"])
    )
    expected = float(
        prediction_divergence(student["logits"], teacher["logits"])
    ) + sum(
        float(state_error(a, b, MASK))
        for a, b in zip(student["states"], teacher["states"], strict=True)
    )
    assert float(layer.losses[0]) == pytest.approx(3 * expected, rel=1e-5)


def test_inference_adds_no_loss() -> None:
    layer = LayerwiseDistillation(weight=3.0)
    layer(outputs(0), outputs(1), MASK, training=False)
    assert layer.losses == []


def test_a_student_like_its_teacher_has_nothing_to_learn() -> None:
    layer = LayerwiseDistillation(weight=3.0)
    layer(outputs(0), outputs(0), MASK, training=True)
    assert float(layer.losses[0]) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")
def test_training_without_labels_brings_the_student_to_the_teacher() -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4, 5))
    mask = keras.Input((4,))
    sides = []
    for name in ("student", "teacher"):
        state = keras.layers.Dense(5, name=f"{name}_state")(inputs)
        pooled = keras.layers.GlobalAveragePooling1D()(state)
        logits = keras.layers.Dense(3, name=f"{name}_logits")(pooled)
        sides.append({"logits": logits, "states": [state]})
    model = keras.Model(
        [inputs, mask], LayerwiseDistillation(1.0)(*sides, mask)
    )
    before = [
        model.get_layer(f"teacher_{part}").get_weights()
        for part in ("state", "logits")
    ]
    # The labels' loss is 0 whatever the student says.
    model.compile(
        keras.optimizers.Adam(0.03), loss=lambda y, p: keras.ops.mean(0 * p)
    )
    x = np.random.default_rng(0).standard_normal((64, 4, 5))
    y, ones = np.zeros((64, 3)), np.ones((64, 4))
    fitted = model.fit([x, ones], y, epochs=15, batch_size=16, verbose=0)
    losses = fitted.history["loss"]
    assert losses[-1] < 0.05 * losses[0]
    for part, old in zip(("state", "logits"), before, strict=True):
        for a, b in zip(
            model.get_layer(f"teacher_{part}").get_weights(), old, strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="weight"):
        LayerwiseDistillation(-1.0)
