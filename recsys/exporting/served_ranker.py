from collections.abc import Mapping

import numpy as np
import pandas as pd
from keras import ops

from keras_moe.layers import record_routing
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.errors import ExportError
from recsys.errors import RunError
from recsys.exporting.input_names import input_names
from recsys.exporting.trial_rows import drawn_rows
from recsys.features.feature import FittedFeature
from recsys.models.budgets import own_budget
from recsys.models.ranker import Ranker
from recsys.models.simplification import with_folded_permutation
from recsys.models.simplification import without_unused_experts

EXPERTS = "/experts"
# The input with the experts per row on average.
BUDGET = "budget"


class ServedRanker:
    """The computation of a served ranker, in any format.

    Experts that no static gate uses are left out, and a permutation of the
    experts is folded into their weights.

    Attributes:
        ranker: The ranker that computes it.
        inputs: By the name of each input, the feature that it is of. Its
            `raw_dtype` and `raw_shape` are the type and the dimensions of the
            input, `(batch,)`, `(batch, any)` or `(batch, size)`;
            `raw_encoder` is how TensorFlow encodes it, and `raw_missing` what
            an input that is left out has in every row.
        input_names: By feature, the name of its input.
        budget: What the input `budget`, `(batch,)`, has in every row where it
            is left out, for a ranker whose gates take one; `None` where there
            is no such input.

    Args:
        ranker: A trained ranker; it is not changed.
        expert_weights: Whether the weights of the experts are outputs, too.
            Defaults to `False`.

    Call arguments:
        encoded: By feature, a tensor of what `FittedFeature.encode` returns.
        budget: Float32 tensor `(batch,)`, the experts of each row on average;
            `budget` in every row unless given.

    Returns:
        By the name of each output, a float32 tensor: for each task
        `(batch,)`, or `(batch, classes)` for a multiclass task, and with
        `expert_weights` for each `"<task>/experts"` `(batch, n)`, the weights
        of the trained ranker's experts for the task, in its order; those that
        are left out weigh 0. Where experts come in levels, those of the first
        level are before those of the next.

    Raises:
        ExportError: A feature has the name of the input `budget`.
        RunError: The weights of experts are wanted of a ranker without any.
    """

    def __init__(self, ranker: Ranker, expert_weights: bool = False) -> None:
        pruned = without_unused_experts(ranker)
        self.ranker, self._order = with_folded_permutation(pruned)
        self.input_names = input_names(ranker.features)
        self.inputs: dict[str, FittedFeature] = {
            self.input_names[name]: feature
            for name, feature in ranker.fitted.items()
        }
        self.budget = own_budget(self.ranker)
        if self.budget is not None and BUDGET in self.inputs:
            raise ExportError(
                f"A ranker whose gates take a budget must not have a feature "
                f"named {BUDGET!r}, which is the name of an input. "
                f"Received: {self.input_names}"
            )
        self.expert_weights = expert_weights
        self._constant_weights: dict[str, Tensor] = {}
        if expert_weights and pruned is not ranker:  # All gates are static.
            row = {
                name: ops.convert_to_tensor(values)
                for name, values in ranker.encode(drawn_rows(ranker, 1)).items()
            }
            outputs = outputs_of(ranker, row, expert_weights=True)
            self._constant_weights = {
                task: ops.convert_to_numpy(outputs[task + EXPERTS])
                for task in ranker.tasks
            }

    def raw(self, rows: pd.DataFrame) -> dict[str, np.ndarray]:
        """Returns rows of features as arrays by input."""
        return {
            input: self.inputs[input].raw(rows[feature])
            for feature, input in self.input_names.items()
        }

    def by_feature(self, values: Mapping[str, Structure]) -> dict[str, Tensor]:
        """Returns, by feature, what there is for each input."""
        return {
            feature: values[input]
            for feature, input in self.input_names.items()
        }

    def __call__(
        self, encoded: Mapping[str, Tensor], budget: Tensor | None = None
    ) -> dict[str, Tensor]:
        varying = self.expert_weights and not self._constant_weights
        outputs = outputs_of(self.ranker, encoded, varying, budget)
        for task in self.ranker.tasks:
            if task in self._constant_weights:
                rows = outputs[task]
                if len(rows.shape) > 1:  # (batch, classes)
                    rows = rows[:, 0]
                outputs[task + EXPERTS] = (
                    ops.zeros_like(rows)[:, None] + self._constant_weights[task]
                )
            elif self.expert_weights and self._order is not None:
                # In the order of training.
                weights = outputs[task + EXPERTS]
                outputs[task + EXPERTS] = ops.take(
                    weights, self._order, axis=-1
                )
        return outputs


def outputs_of(
    ranker: Ranker,
    encoded: Mapping[str, Tensor],
    expert_weights: bool,
    budget: float | Tensor | None = None,
) -> dict[str, Tensor]:
    """Returns the outputs of a ranker as they are served.

    Args:
        ranker: A trained ranker.
        encoded: By feature, a tensor of what `FittedFeature.encode` returns.
        expert_weights: Whether the weights of its experts are among them.
        budget: Experts per row on average, a number or a tensor `(batch,)`.

    Raises:
        RunError: They are wanted, and the ranker has no experts.
    """
    with record_routing() as records:
        predictions = ranker(encoded, training=False, budget=budget)
    outputs = {
        task: ops.squeeze(prediction, axis=-1)
        if prediction.shape[-1] == 1
        else prediction
        for task, prediction in predictions.items()
    }
    if not expert_weights:
        return outputs
    if not records:
        raise RunError(
            "`expert_weights` must be False for a model without experts. "
            "Received: expert_weights=True"
        )
    weights = {
        task + EXPERTS: ops.concatenate(
            [
                # A mixture for all tasks has weights under its own name.
                record.weights.get(
                    task, record.weights.get(record.mixture.name)
                )
                for record in records
            ],
            axis=-1,
        )
        for task in predictions
    }
    return outputs | weights
