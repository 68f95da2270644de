import keras

from keras_moe.callbacks.sample import Sample
from keras_moe.types import Structure


class Examples(Sample):
    """The examples that experts are judged on, with labels or without.

    Args:
        data: Inputs of a model, an array or a dict or list of arrays; or a
            tuple `(inputs, labels)` or `(inputs, labels, sample_weights)`.
        batch_size: Integer, rows per batch.

    Raises:
        TypeError: If `data` holds anything else than arrays.
        ValueError: If there are no rows, arrays differ in their number, or a
            tuple has more than three entries.
    """

    def __init__(self, data: Structure, batch_size: int) -> None:
        if isinstance(data, tuple) and not 1 <= len(data) <= 3:
            raise ValueError(
                "`data` as a tuple must be (inputs, labels) or (inputs, "
                "labels, sample_weights); several inputs come as a list or "
                f"dict. Received: a tuple of {len(data)}"
            )
        # All of it, for the check of the rows.
        super().__init__(data, batch_size)
        self.labels: Structure = None
        self.sample_weights: Structure = None
        if isinstance(data, tuple):
            parts = (*data, None, None)
            self.data, self.labels, self.sample_weights = parts[:3]

    def loss(self, model: keras.Model) -> float:
        """The loss of a compiled model on the examples."""
        logs = model.evaluate(
            self.data,
            self.labels,
            sample_weight=self.sample_weights,
            batch_size=self.batch_size,
            verbose=0,
            return_dict=True,
        )
        return float(logs["loss"])
