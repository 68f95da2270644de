from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_moe.layers import record_routing
from recsys.models.ranker import Ranker
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained
from recsys.reporting.trained import titled_best_runs

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
    for title, run in titled_best_runs(trained):
        if not (run.has_model and isinstance(run.loaded, Ranker)):
            continue
        features, top = embedded_rows(run.loaded, run.sample.inputs)
        if top:
            name = f"embeddings_{len(pictures)}"
            pictures.append(Picture(name, title, _draw(features, top)))
    text = (
        "The concatenated embeddings of a sample of the validation split, "
        "projected by UMAP; the colour is the expert with the largest weight, "
        "one panel per task."
    )
    return Section("Embeddings", text, pictures=pictures) if pictures else None


def embedded_rows(
    model: Ranker, inputs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Returns what the experts see, and each task's top expert.

    Args:
        model: A ranker.
        inputs: As `Ranker.encode` returns them; the first 4,000 rows count.

    Returns:
        Array `(rows, width)`, and by task an integer array `(rows,)`; no
        task where the model has no gate.
    """
    inputs = {name: values[:MOST_ROWS] for name, values in inputs.items()}
    with record_routing() as records:
        model(inputs, training=False)
    top = {
        task: ops.convert_to_numpy(ops.argmax(weights, axis=-1))
        for record in records[:1]
        for task, weights in record.weights.items()
    }
    features, _ = model.mixture_inputs(inputs, training=False)
    return ops.convert_to_numpy(features), top


def _draw(features: Any, top: dict[str, Any]) -> Figure:
    from umap import UMAP  # Compiles for seconds when it is imported.

    places = UMAP(random_state=0, n_jobs=1).fit_transform(features)
    figure = Figure(figsize=(4 * len(top) + 1, 4), layout="constrained")
    axes = figure.subplots(1, len(top), squeeze=False)[0]
    for axis, (task, experts) in zip(axes, top.items(), strict=True):
        for number in np.unique(experts):
            x, y = places[experts == number].T
            axis.scatter(x, y, s=2, color=f"C{number % 10}", label=str(number))
        axis.set(title=task, xticks=[], yticks=[])
        axis.legend(title="expert", markerscale=4, frameon=False, fontsize=7)
    return figure
