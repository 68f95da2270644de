from collections.abc import Mapping
from typing import Any

from keras import ops

from recsys.exporting.input_names import input_names
from recsys.features.fitted_feature import FittedFeature
from recsys.models.pruning import without_unused_experts
from recsys.models.ranker import Ranker


class ServedRanker:
    """What is computed of a ranker where it is served, in any format.

    Experts that no static gate uses are left out.

    Attributes:
        ranker: The ranker that computes it.
        inputs: By the name of each input, the feature that it is of. Its
            `raw_dtype` and `raw_rank` are the type and the number of
            dimensions of the input, `(batch,)` or `(batch, any)`;
            `raw_encoder` is how TensorFlow encodes it.
        input_names: By feature, the name of its input.

    Args:
        ranker: A trained ranker; it is not changed.

    Call arguments:
        encoded: By feature, a tensor of what `FittedFeature.encode` returns.

    Returns:
        By the name of each output, a float32 tensor: for each task
        `(batch,)`, or `(batch, classes)` for a multiclass task.
    """

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = without_unused_experts(ranker)
        self.input_names = input_names(ranker.features)
        self.inputs: dict[str, FittedFeature] = {
            self.input_names[name]: feature
            for name, feature in ranker.fitted.items()
        }

    def by_feature(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns, by feature, what there is for each input."""
        return {
            feature: values[input]
            for feature, input in self.input_names.items()
        }

    def __call__(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        predictions = self.ranker(encoded, training=False)
        return {
            task: ops.squeeze(prediction, axis=-1)
            if prediction.shape[-1] == 1
            else prediction
            for task, prediction in predictions.items()
        }
