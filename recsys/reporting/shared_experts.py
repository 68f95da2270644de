from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_moe.layers import MMoE
from keras_moe.layers import record_routing
from keras_moe.metrics import jaccard_indices
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained
from recsys.reporting.trained import titled_best_runs

MOST_NUMBERED_TASKS = 12
_INK = "0.1"  # Of numbers on light cells; black would follow a dark page.


def shared_experts(trained: Sequence[Trained]) -> Section | None:
    """Draws how far each two tasks select the same experts.

    Args:
        trained: The finished trainings; the best of each model is drawn,
            where several tasks have gates over the same experts.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.1, figure C.5.
    """
    pictures: list[Picture] = []
    for title, run in titled_best_runs(trained):
        if not run.has_predictions:
            continue
        overlap = overlap_of_tasks(run.loaded, run.sample.inputs)
        if len(overlap) > 1:
            name = f"shared_experts_{len(pictures)}"
            caption = f"{title}. {in_words(overlap)}"
            pictures.append(Picture(name, caption, _draw(overlap)))
    text = (
        "The Jaccard index of the experts that two tasks select for a row, "
        "the mean over a sample of the validation split: 1 where the tasks "
        "share all their experts, 0 where they share none."
    )
    if not pictures:
        return None
    return Section("Experts shared by tasks", text, pictures=pictures)


def overlap_of_tasks(
    model: MultiTaskModel, inputs: dict[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """Returns the mean Jaccard index of each two tasks' experts.

    Args:
        model: A model. That of its first `MMoE` is returned; the tasks of
            other mixtures have no gate, or no experts, in common.
        inputs: As `encode` of the model returns them.

    Returns:
        By task, an array `(T,)` in the order of the tasks. Empty where the
        model has no `MMoE`.
    """
    with record_routing() as records:
        model(inputs, training=False)
    for record in records:
        if isinstance(record.mixture, MMoE):
            by_task = list(record.weights.values())
            weights = ops.convert_to_numpy(ops.stack(by_task, axis=-2))
            rows = jaccard_indices(weights)  # (rows, T, T)
            return dict(zip(record.weights, np.nanmean(rows, 0), strict=True))
    return {}


def in_words(overlap: Mapping[str, np.ndarray]) -> str:
    """Says which tasks share most of their experts, and which least.

    Args:
        overlap: What `overlap_of_tasks` returns, of at least two tasks.

    Example:
    >>> in_words({"watch": np.array([1, 0.25]), "rating": np.array([0.25, 1])})
    'watch and rating share 0.25.'
    """
    tasks = list(overlap)
    shared = {
        (task, other): float(overlap[task][position])
        for position, other in enumerate(tasks)
        for task in tasks[:position]
        if not np.isnan(overlap[task][position])
    }
    if not shared:
        return "No row has experts of two tasks."
    if len(shared) == 1:
        ((pair, value),) = shared.items()
        return f"{' and '.join(pair)} share {value:.2f}."
    low = min(shared, key=shared.__getitem__)
    high = max(shared, key=shared.__getitem__)
    mean = np.mean(list(shared.values()))
    return (
        f"Most is shared by {' and '.join(high)}, {shared[high]:.2f}, least "
        f"by {' and '.join(low)}, {shared[low]:.2f}; the mean of the "
        f"{len(shared):,} pairs is {mean:.2f}."
    )


def _draw(overlap: Mapping[str, np.ndarray]) -> Figure:
    tasks, values = list(overlap), np.stack(list(overlap.values()))
    size = float(np.clip(0.6 * len(tasks), 2, 9))
    figure = Figure(figsize=(size + 2, size + 1), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(values, cmap="YlGnBu", vmin=0, vmax=1)
    axis.set_xticks(range(len(tasks)), tasks, rotation=90)
    axis.set_yticks(range(len(tasks)), tasks)
    axis.tick_params(length=0)
    figure.colorbar(image, label="Jaccard index", shrink=0.8)
    if len(tasks) <= MOST_NUMBERED_TASKS:
        for (row, column), value in np.ndenumerate(values):
            color = "white" if value > 0.5 else _INK
            text = f"{value:.2f}"
            axis.text(column, row, text, ha="center", va="center", color=color)
    return figure
