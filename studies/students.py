"""Students of a BERT: how they are made, trained and measured."""

import time
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras_hub.models import BertBackbone

from keras_moe.callbacks import PermutationSearch
from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import COMETGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MOESARTGate
from keras_moe.layers import PermutedGate
from keras_moe.layers import TopKGate
from recsys.config.gate_names import GateChoice
from studies.bert import with_head
from studies.distillation_tasks import Inputs
from studies.distillation_tasks import Task
from studies.layerwise_distillation import LayerwiseDistillation
from studies.moebert import feed_forward_kernels
from studies.moebert import mixture_of_bert
from studies.moebert import narrower_bert
from studies.neuron_importance import deal_neurons
from studies.neuron_importance import neuron_importance

GATES = ("hash", "top-k", "comet", "comet+", "moesart")
# The dense models beside the mixtures, and how many experts' neurons they have.
NARROW = {"narrow": 1, "narrow-2": 2}


@dataclass(frozen=True)
class Recipe:
    """How students are made and trained.

    Args:
        num_experts: The experts of a layer, published 4. Each has its share
            of as many neurons as the dense layer has.
        shared: Share of an expert's neurons that all experts have, published
            2 / 3.
        epochs: The epochs of a student.
        teacher_epochs: The epochs of the teacher.
        learning_rate: Of AdamW, published 1e-5 to 5e-5 for pretrained models.
        weight_decay: Of AdamW, published 0, 0.01 and 0.1.
        batch_size: Examples in a batch, published 8 to 64.
        search_epochs: The epochs of a permutation local search.
        dropout: Share that the head drops in training.
        importance_batch_size: Of the importance of neurons.
    """

    num_experts: int = 4
    shared: float = 2 / 3
    epochs: int = 10
    teacher_epochs: int = 10
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    batch_size: int = 32
    search_epochs: int = 2
    dropout: float = 0.1
    importance_batch_size: int = 32


@dataclass(frozen=True)
class Teacher:
    """A fine-tuned BERT.

    Attributes:
        backbone: The BERT.
        model: The same with its head.
        frozen: A copy of the model that no training changes.
        importance: For each layer, the importance of its neurons, `(h,)`.
        measures: What it has come to.
    """

    backbone: BertBackbone
    model: keras.Model
    frozen: keras.Model
    importance: list[np.ndarray]
    measures: dict[str, float]


def prepare_teacher(task: Task, recipe: Recipe) -> Teacher:
    """Fine-tunes a BERT, unless the task has a teacher, and looks into it.

    Args:
        task: The task.
        recipe: How.
    """
    backbone = task.backbone()
    model = with_head(backbone, task.num_classes, recipe.dropout)
    if task.teacher is None:
        measures = _train(model, task, recipe, recipe.teacher_epochs)
    else:
        model.set_weights(task.teacher.get_weights())
        measures = {
            **task.measure(_predict(_logits(model), task)),
            "epoch": 0.0,
        }
    importance = neuron_importance(
        _logits(model),
        feed_forward_kernels(backbone),
        task.inputs,
        task.labels,
        _loss(),
        recipe.importance_batch_size,
    )
    measures["neurons"] = float(backbone.intermediate_dim)
    return Teacher(backbone, model, _frozen(model), importance, measures)


def _frozen(model: keras.Model) -> keras.Model:
    """Copies a model, so that a student may be trained beside it."""
    # Keras clears the gradients of PyTorch by the variables' paths: those of
    # a student with the same paths would add up from step to step.
    with keras.name_scope("frozen"):
        frozen = keras.models.clone_model(model)
    frozen.set_weights(model.get_weights())
    frozen.trainable = False
    return frozen


def train_student(
    name: str, weight: float, teacher: Teacher, task: Task, recipe: Recipe
) -> dict[str, float]:
    """Makes a student of a teacher, trains and measures it.

    Args:
        name: One of `GATES`, for a mixture, or of `NARROW`.
        weight: Of the distillation; 0 trains on the task alone.
        teacher: The teacher.
        task: The task.
        recipe: How.

    Returns:
        The task's metrics in the best epoch, that epoch's number, `"last"`,
        the first metric in the last epoch, the mean of the `"neurons"` that
        a token meets in a layer, and the `"seconds"` of the training.
    """
    student = _create_student(name, teacher, task, recipe)
    searched = GateChoice.parse(name).searched
    measures = _train(
        student,
        task,
        recipe,
        recipe.epochs,
        teacher.frozen if weight else None,
        weight,
        [PermutationSearch(recipe.search_epochs)] if searched else [],
    )
    units = _expert_units(teacher, recipe)
    experts = (
        float(NARROW[name])
        if name in NARROW
        else _experts_per_token(student, task, recipe)
    )
    return {**measures, "neurons": experts * units}


def create_gate(
    name: str, num_experts: int, vocabulary_size: int, layer: int
) -> Gate:
    """Makes the gate of a layer, with hyperparameters of the published sets.

    Args:
        name: One of `GATES`.
        num_experts: The number of experts.
        vocabulary_size: The number of tokens.
        layer: The number of the layer: each has a hash table of its own.

    References:
        Ibrahim et al., COMET, KDD 2023, section 5.2: 1 expert for a token;
        supplement S2.2: γ in 0.01 to 1, entropy weight in 0.05 to 10.
        Ibrahim et al., MOESART, supplement S7.2: 2 experts, τ = 1, trimmed
        lasso in 0.0001 to 10.
    """
    choice = GateChoice.parse(name)
    if choice.name == "hash":
        return HashGate(num_experts, vocabulary_size, seed=layer)
    if choice.name == "top-k":
        return TopKGate(num_experts, k=2)
    if choice.name == "moesart":
        return MOESARTGate(num_experts, k=2, trimmed_lasso_weight=0.01)
    gate = COMETGate(num_experts, k=1, gamma=0.1, entropy_weight=0.1)
    return PermutedGate(gate) if choice.searched else gate


def _create_student(
    name: str, teacher: Teacher, task: Task, recipe: Recipe
) -> keras.Model:
    units = _expert_units(teacher, recipe)
    if name in NARROW:
        kept = [
            deal_neurons(scores, 1, 0, NARROW[name] * units)[0]
            for scores in teacher.importance
        ]
        backbone = narrower_bert(teacher.backbone, kept)
    else:
        shared = round(recipe.shared * units)
        dealt = [
            deal_neurons(scores, recipe.num_experts, shared, units)
            for scores in teacher.importance
        ]
        backbone = mixture_of_bert(
            teacher.backbone,
            dealt,
            lambda layer: create_gate(
                name,
                recipe.num_experts,
                teacher.backbone.vocabulary_size,
                layer,
            ),
        )
    student = with_head(backbone, task.num_classes, recipe.dropout)
    head = teacher.model.get_layer("head")
    student.get_layer("head").set_weights(head.get_weights())
    return student


def _expert_units(teacher: Teacher, recipe: Recipe) -> int:
    return int(teacher.backbone.intermediate_dim // recipe.num_experts)


def _train(
    model: keras.Model,
    task: Task,
    recipe: Recipe,
    epochs: int,
    teacher: keras.Model | None = None,
    weight: float = 0.0,
    callbacks: list[keras.callbacks.Callback] | None = None,
) -> dict[str, float]:
    """Trains a model, and leaves it as it was in the best epoch."""
    predicting = _logits(model)
    trained = predicting
    if teacher is not None:
        logits = LayerwiseDistillation(weight)(
            model.output,
            # Its dropout stays out of what it teaches.
            teacher(model.input, training=False),
            model.input["padding_mask"],
        )
        trained = keras.Model(model.input, logits)
    trained.compile(
        keras.optimizers.AdamW(recipe.learning_rate, recipe.weight_decay),
        _loss(),
    )
    development = _Development(predicting, task)
    start = time.perf_counter()
    trained.fit(
        task.inputs,
        task.labels,
        batch_size=recipe.batch_size,
        epochs=epochs,
        verbose=0,
        callbacks=[*(callbacks or []), development],
    )
    predicting.set_weights(development.weights)
    return {
        **development.best,
        "last": development.last,
        "seconds": time.perf_counter() - start,
    }


class _Development(keras.callbacks.Callback):
    """Measures a model after each epoch, and keeps the best one's weights."""

    def __init__(self, measured: keras.Model, task: Task) -> None:
        super().__init__()
        self.measured = measured
        self.task = task
        self.best: dict[str, float] = {}
        self.last = float("nan")
        self.weights: list[np.ndarray] = []

    def on_epoch_end(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        measures = self.task.measure(_predict(self.measured, self.task))
        first = next(iter(measures))
        self.last = measures[first]
        if not self.best or measures[first] > self.best[first]:
            self.best = {**measures, "epoch": float(epoch + 1)}
            self.weights = self.measured.get_weights()


def _loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _logits(model: keras.Model) -> keras.Model:
    return keras.Model(model.input, model.output["logits"])


def _predict(model: keras.Model, task: Task) -> dict[str, np.ndarray]:
    """The logits for each of the splits to measure on."""
    return {
        split: model.predict(inputs, batch_size=128, verbose=0)
        for split, inputs in task.development.items()
    }


def _experts_per_token(
    student: keras.Model, task: Task, recipe: Recipe
) -> float:
    """The mean over all layers and all tokens of the development splits."""
    batches = (
        batch
        for inputs in task.development.values()
        for batch in _batches(inputs, recipe.batch_size)
    )
    routing = measure_routing(RoutingModel(student), batches)
    counts = [layer["experts_per_example"] for layer in routing.values()]
    return float(np.mean(counts))


def _batches(inputs: Inputs, size: int) -> Iterator[Inputs]:
    count = len(inputs["token_ids"])
    for start in range(0, count, size):
        yield {name: rows[start:][:size] for name, rows in inputs.items()}
