"""Differences of losses between dense and sparse inference."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from math import ceil

import keras
import numpy as np
from keras import ops
from matplotlib.figure import Figure
from scipy.stats import wasserstein_distance

from keras_moe.layers import BudgetGate
from keras_moe.layers import LogitGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from recsys.measuring.sample import Sample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.private_names import each_layer
from recsys.reporting.changed_model import Config
from recsys.reporting.changed_model import with_configs
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.statistics import mean_and_error
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs

_INFERENCES = ("dense", "sparse")


def loss_distributions(trained: Sequence[Trained]) -> Section | None:
    """Draws the losses of dense against those of sparse inference.

    Args:
        trained: The finished trainings; the best of each model counts, where
            its gates turn linear logits into weights.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, section 3, figure 2.
    """
    tables: list[Table] = []
    pictures: list[Picture] = []
    for setting, runs in best_runs(trained).items():
        losses = {
            run.model: both
            for run in runs
            if run.has_predictions
            for both in [dense_and_sparse(run)]
            if both
        }
        if not losses:
            continue
        reference = _reference(runs, losses)
        tables.append(_table(setting, losses, reference))
        name = f"loss_distributions_{len(pictures)}"
        caption = f"{setting}. {in_words(losses)}"
        pictures.append(Picture(name, caption, _draw(losses)))
        compared = {
            model: {**both, reference: losses[reference]["dense"]}
            for model, both in losses.items()
            if reference and model != reference
        }
        if compared:
            name = f"loss_distributions_{len(pictures)}"
            caption = f"{setting}: beside {reference}, which runs all experts"
            pictures.append(Picture(name, caption, _draw(compared)))
    text = (
        "Losses of the examples of a sample of the validation split, weighted "
        "sums of the tasks', when the softmax of all logits weighs the experts "
        "(dense) and when at most k experts count (sparse): the gate's own "
        "weights, or those of Top-k where the gate is a softmax. WD: "
        "Wasserstein distance of the two distributions, and of each to that "
        "of a softmax gate, if there is one, with all its experts."
    )
    if not tables:
        return None
    return Section("Dense and sparse inference", text, tables, pictures)


def _reference(
    runs: Sequence[Trained], losses: Mapping[str, object]
) -> str | None:
    """The first model that is a classical mixture of experts."""
    for run in runs:
        if run.model in losses and run.config.gate == "softmax":
            return run.model
    return None


def dense_and_sparse(run: Trained) -> dict[str, np.ndarray]:
    """Returns the losses of dense and of sparse inference.

    Returns:
        For "dense" and "sparse" an array `(rows,)`; nothing where the gates
        are not of the kind.
    """
    model = run.loaded
    layers = each_layer(model)
    gates = [g for g in layers if isinstance(g, LogitGate)]
    # What a budget cuts is neither all experts nor the k largest of a row.
    if any(isinstance(layer, BudgetGate) for layer in layers):
        return {}
    if not gates or not all(map(_has_softmax, gates)):
        return {}
    models = {"dense": with_gates(model, softmax_of), "sparse": model}
    if gates[0].always_dense:
        k = run.config.k
        models["sparse"] = with_gates(model, lambda gate: _top_k(gate, k))
    return {
        name: losses_of_rows(variant, run.sample, run.config.task_weights)
        for name, variant in models.items()
    }


def _has_softmax(gate: LogitGate) -> bool:
    """Returns whether the gate sparsifies the softmax of linear logits."""
    is_linear = type(gate).compute_logits is LogitGate.compute_logits
    return is_linear and gate.has_softmax


def softmax_of(gate: LogitGate) -> LogitGate:
    """Returns a gate that weighs experts by the softmax of the logits."""
    return SoftmaxGate(
        gate.num_experts,
        static=gate.static,
        use_bias=gate.use_bias,
        name=gate.name,
    )


def _top_k(gate: LogitGate, k: int) -> LogitGate:
    return TopKGate(
        gate.num_experts,
        k,
        static=gate.static,
        use_bias=gate.use_bias,
        name=gate.name,
    )


def with_gates(
    model: MultiTaskModel, make: Callable[[LogitGate], LogitGate]
) -> MultiTaskModel:
    """Returns a model whose gates make something else of their logits."""

    def change(config: Config) -> Config:
        name = config.get("registered_name")
        kind = name and keras.saving.get_registered_object(name)
        if not (isinstance(kind, type) and issubclass(kind, LogitGate)):
            return config
        gate = keras.saving.deserialize_keras_object(config)
        return dict(keras.saving.serialize_keras_object(make(gate)))

    return with_configs(model, change)


def losses_of_rows(
    model: MultiTaskModel, sample: Sample, task_weights: Mapping[str, float]
) -> np.ndarray:
    """Returns the weighted sum of the tasks' losses of each row.

    A missing label adds nothing.

    Args:
        model: A model.
        sample: The rows.
        task_weights: Weight of each task's loss.
    """
    predictions = model.predict(sample.inputs, verbose=0)
    total = np.zeros(len(sample))
    for task in model.tasks:
        labels = sample.labels[task]
        known = ~np.isnan(labels)
        losses = model.loss_of(task, reduction=None)(
            labels[known, None], predictions[task][known]
        )
        total[known] += task_weights[task] * ops.convert_to_numpy(losses)
    return total


def in_words(losses: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Says how much higher or lower the loss of sparse inference is.

    Args:
        losses: By model, the losses of the rows `(rows,)` that
            `dense_and_sparse` returns. Differences are row by row.

    Example:
    >>> dense, sparse = np.array([0.2, 0.4]), np.array([0.3, 0.7])
    >>> in_words({"top-k": {"dense": dense, "sparse": sparse}})
    'Loss x 100 of sparse minus dense inference: top-k +20.00 ± 10.00.'
    """
    differences = []
    for model, both in losses.items():
        apart = 100 * (both["sparse"] - both["dense"])
        sign = "+" if apart.mean() >= 0 else ""
        differences.append(f"{model} {sign}{mean_and_error(apart, 2)}")
    text = ", ".join(differences)
    return f"Loss x 100 of sparse minus dense inference: {text}."


def _table(
    setting: str,
    losses: Mapping[str, Mapping[str, np.ndarray]],
    reference: str | None,
) -> Table:
    titles = ["dense loss", "sparse loss", "WD"]
    if reference:
        titles += [f"WD of {name} to {reference}" for name in _INFERENCES]
    rows = []
    for model, both in losses.items():
        dense, sparse = (both[name] for name in _INFERENCES)
        values = [dense.mean(), sparse.mean()]
        values.append(wasserstein_distance(dense, sparse))
        if reference:
            theirs = losses[reference]["dense"]
            values += [wasserstein_distance(x, theirs) for x in (dense, sparse)]
        rows.append([model, *(f"{100 * value:.2f}" for value in values)])
    header = ["model", *(f"{title} x 100" for title in titles)]
    return Table(f"{setting}: means", header, rows)


def _draw(losses: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    columns = min(len(losses), 4)
    rows = ceil(len(losses) / columns)
    figure = Figure(figsize=(4 * columns, 3.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    highest = np.percentile(
        [list(both.values()) for both in losses.values()], 99
    )
    edges = np.linspace(0, highest, 41)
    for axis in axes[len(losses) :]:
        axis.remove()
    for axis, (model, both) in zip(axes, losses.items(), strict=False):
        for name, values in both.items():
            axis.hist(values, edges, density=True, histtype="step", label=name)
        axis.set(title=model, xlabel="Loss, up to the 99th percentile")
        axis.set_ylabel("Density")
    axes[0].legend(frameon=False)
    return figure
