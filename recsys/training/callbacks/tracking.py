import keras

from keras_moe.types import Logs
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.tracking.tracked_run import TrackedRun


class Tracking(keras.callbacks.Callback):
    """Logs each epoch to an experiment tracker, once it has a checkpoint.

    Args:
        tracked: The run of the tracker.
        checkpoint: What has the epochs so far.
    """

    def __init__(self, tracked: TrackedRun, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.tracked = tracked
        self.checkpoint = checkpoint

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.tracked.log_epochs(self.checkpoint.progress.history)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.tracked.log_epochs(self.checkpoint.progress.history)
