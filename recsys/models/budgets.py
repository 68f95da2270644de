"""How many experts a row may have on average, where a model leaves it open."""

import keras

from keras_moe.layers import Gate
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower


def own_budget(model: MultiTaskModel) -> float | None:
    """Returns the budget of a call that names none.

    Args:
        model: The model.

    Returns:
        `k` of its gates, or `None` where they take no budget.
    """
    gates = _gates(model.mixture)
    if not gates or not all(gate.takes_budget for gate in gates):
        return None
    return gates[0].experts_per_row


def budgets_of(model: MultiTaskModel) -> list[float]:
    """Returns the least budget of a model, its own one and the largest.

    Args:
        model: The model.

    Returns:
        Nothing where its gates take no budget.
    """
    budget = own_budget(model)
    return [] if budget is None else [1.0, budget, _most(model)]


def check_budget(model: MultiTaskModel, budget: float | None) -> None:
    """Checks that a model can have a budget.

    Args:
        model: The model.
        budget: Experts per row on average, or `None`, which is always right.

    Raises:
        ValueError: Its gates take no budget, or it is out of range.
    """
    if budget is None:
        return
    if own_budget(model) is None:
        raise ValueError(
            "`budget` must be left out: only a model trained with "
            "gate='budget' and the architecture mmoe or moe takes one. "
            f"Received: budget={budget!r}"
        )
    most = _most(model)
    if not 1 <= budget <= most:
        raise ValueError(
            f"`budget` must be between 1 and {most}, the number of experts. "
            f"Received: budget={budget!r}"
        )


def _most(model: MultiTaskModel) -> int:
    return _gates(model.mixture)[0].num_experts


def _gates(mixture: keras.layers.Layer) -> list[Gate]:
    """The gates of a mixture that hands a budget on; of others, none."""
    if isinstance(mixture, SharedTower):
        return _gates(mixture.layer)
    if isinstance(mixture, MoE):
        return [mixture.gate]
    if isinstance(mixture, MMoE) and isinstance(mixture.gates, dict):
        return list(mixture.gates.values())
    return []
