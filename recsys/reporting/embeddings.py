from collections.abc import Mapping
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
from keras import ops
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_moe.layers import LogitGate
from keras_moe.layers import record_routing
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import SHARED
from recsys.models.ranker import Ranker
from recsys.private_names import each_layer
from recsys.reporting.loss_distributions import softmax_of
from recsys.reporting.loss_distributions import with_gates
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs

MOST_ROWS = 4000


def embeddings(trained: Sequence[Trained]) -> Section | None:
    """Draws the embedded inputs in a plane, coloured by their top expert.

    Needs `umap-learn`; without it nothing is drawn.

    Args:
        trained: The finished trainings; the best of each model is drawn,
            where it routes rows of tables.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, section 4.3, figure 5.
        McInnes, Healy, Melville. UMAP: Uniform Manifold Approximation and
        Projection for Dimension Reduction. 2018.
    """
    if find_spec("umap") is None:
        return None
    pictures: list[Picture] = []
    for setting, runs in best_runs(trained).items():
        embedded = {
            run.model: (features, top)
            for run in runs
            if run.has_predictions and isinstance(run.loaded, Ranker)
            for features, top in [embedded_rows(run.loaded, run.sample.inputs)]
            if top
        }
        if embedded:
            name = f"embeddings_{len(pictures)}"
            pictures.append(Picture(name, setting, _draw(embedded)))
    text = (
        "The concatenated embeddings of a sample of the validation split, "
        "projected by UMAP; the colour is the expert with the largest weight, "
        "or the largest logit for MOESART, whose weights are all alike. "
        "A row of panels for each model, all on the same rows of the data, and "
        "a panel for each task."
    )
    return Section("Embeddings", text, pictures=pictures) if pictures else None


def embedded_rows(
    model: Ranker, inputs: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns what the experts see, and each task's top expert.

    Args:
        model: A ranker.
        inputs: As `Ranker.encode` returns them; the first 4,000 rows count.

    Returns:
        Array `(rows, width)`, and by task an integer array `(rows,)`, for
        MOESART, whose weights are alike, by its logits; no task where the
        model has no gate.
    """
    inputs = {name: values[:MOST_ROWS] for name, values in inputs.items()}
    with record_routing() as records:
        _with_distinct_weights(model)(inputs, training=False)
    top = {
        task: ops.convert_to_numpy(ops.argmax(weights, axis=-1))
        for record in records[:1]
        for task, weights in record.weights.items()
    }
    features, _ = model.mixture_inputs(inputs, training=False)
    if isinstance(features, dict):
        features = features[SHARED]
    return ops.convert_to_numpy(features), top


def _with_distinct_weights(model: Ranker) -> MultiTaskModel:
    """The model, with the softmax of the logits where weights are all alike."""
    gates = [g for g in each_layer(model) if isinstance(g, LogitGate)]
    if not any(gate.equal_weights for gate in gates):
        return model

    def change(gate: LogitGate) -> LogitGate:
        return softmax_of(gate) if gate.equal_weights else gate

    return with_gates(model, change)


def _draw(
    embedded: Mapping[str, tuple[np.ndarray, dict[str, np.ndarray]]],
) -> Figure:
    """A row of panels for each model, with one panel for each task."""
    from umap import UMAP  # Compiles for seconds when it is imported.

    columns = max(len(top) for _, top in embedded.values())
    size = (4 * columns + 1, 4 * len(embedded))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(embedded), columns, squeeze=False)
    for row, (model, (features, top)) in zip(
        axes, embedded.items(), strict=True
    ):
        places = UMAP(random_state=0, n_jobs=1).fit_transform(features)
        colours = expert_colours(np.concatenate(list(top.values())))
        for axis, (task, experts) in zip(row, top.items(), strict=False):
            axis.set_title(f"{model}: {task}")
            _draw_panel(axis, places, experts, colours)
        for axis in row[len(top) :]:
            axis.remove()
    return figure


def expert_colours(experts: np.ndarray) -> dict[int, np.ndarray]:
    """Returns a colour of its own for each expert.

    Args:
        experts: Integer array, in which an expert may be more than once.
    """
    numbers = np.unique(experts)
    places = np.arange(len(numbers))
    for name in ("tab10", "tab20"):
        if len(numbers) <= colormaps[name].N:
            return dict(zip(numbers, colormaps[name](places), strict=True))
    shades = colormaps["turbo"](places / (len(numbers) - 1))
    return dict(zip(numbers, shades, strict=True))


def _draw_panel(
    axis: Axes,
    places: np.ndarray,
    experts: np.ndarray,
    colours: Mapping[int, np.ndarray],
) -> None:
    for number in np.unique(experts):
        x, y = places[experts == number].T
        axis.scatter(x, y, s=2, color=colours[number], label=str(number))
    axis.set(xticks=[], yticks=[])
    axis.legend(title="expert", markerscale=4, frameon=False, fontsize=7)
