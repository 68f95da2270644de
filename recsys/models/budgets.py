"""How many experts a row may have on average, where a model leaves it open."""

import keras

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import AdaTT
from keras_moe.layers import Gate
from keras_moe.layers import HoME
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
            "gate='budget' takes one. "
            f"Received: budget={budget!r}"
        )
    most = _most(model)
    if not 1 <= budget <= most:
        raise ValueError(
            f"`budget` must be between 1 and {most}, the number of experts. "
            f"Received: budget={budget!r}"
        )


def _most(model: MultiTaskModel) -> int:
    return max(gate.num_experts for gate in _gates(model.mixture))


def _gates(mixture: keras.layers.Layer) -> list[Gate]:
    """The gates that a mixture passes a budget to, the task's gates first."""
    match mixture:
        case SharedTower():
            return _gates(mixture.layer)
        case PLE():
            return [gate for level in mixture.levels for gate in _gates(level)]
        case HoME():
            return _gates(mixture.groups) + _gates(mixture.tasks)
        case MoE():
            return [mixture.gate]
        case MMoE() if isinstance(mixture.gates, dict):
            return list(mixture.gates.values())
        case CGC():
            shared = [mixture.shared_gate] if mixture.shared_gate else []
            # The weights of an AdaTT's own experts are not routed.
            own = {} if isinstance(mixture, AdaTT) else mixture.self_gates
            return [*mixture.gates.values(), *shared, *own.values()]
    return []
