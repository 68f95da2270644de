from typing import Any

import keras

from recsys.files.json_files import JsonMapping


class EpochSummaries(keras.callbacks.TensorBoard):
    """Writes the metrics of each epoch for TensorBoard.

    Of the arguments, `update_freq` must be `"epoch"`, its default. Keras's
    callback writes nothing else then either, but imports TensorFlow, on any
    backend, before the first step, and has it summarize the logs of each step
    for no writer. Here the first epoch has ended when it is imported.
    """

    def on_train_begin(self, logs: JsonMapping | None = None) -> None:
        """Opens no file: that of the first epoch's metrics does."""

    def on_train_batch_begin(
        self, batch: int, logs: JsonMapping | None = None
    ) -> None:
        """Counts no steps, which only summaries of steps would have."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Summarizes no step."""
