from collections.abc import Sequence

import keras

from recsys.reporting.operations import count_operations
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs


def flops(trained: Sequence[Trained]) -> Section | None:
    """Counts the operations that a prediction takes with each gate.

    They are counted in TensorFlow's graph; under other backends there is
    nothing to say.

    Args:
        trained: The finished trainings; the best of each model is counted,
            where it holds one `MoE` or `MMoE`.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, appendix D.2, table 6.
    """
    if keras.backend.backend() != "tensorflow":
        return None
    tables = []
    for setting, runs in best_runs(trained).items():
        rows = [row for run in runs if run.has_predictions for row in _row(run)]
        if rows:
            header = ["model", "experts evaluated", "FLOPs"]
            tables.append(Table(setting, header, rows))
    text = (
        "Floating-point operations of the products in one prediction, counted "
        "from the graph of the best model by validation loss: all that is not "
        "an expert, and as many experts as the gates choose for an example of "
        "the validation split, each once however many tasks chose it."
    )
    if not tables:
        return None
    return Section("Operations of a prediction", text, tables)


def _row(run: Trained) -> list[list[str]]:
    """A row for the table, none for other models."""
    counted = count_operations(run.loaded, run.sample)
    if counted is None:
        return []
    count = counted.forward(counted.experts, counted.weights)
    return [[run.model, f"{counted.experts:.2f}", f"{count / 1000:,.0f}K"]]
