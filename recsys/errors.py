"""What can go wrong in a run although every argument was right."""


class RunError(Exception):
    """A run folder is not in the state that a command needs."""


class NonFiniteLossError(RunError):
    """The loss became NaN or infinite while training."""


class ExportError(RunError):
    """An exported model does not do what the trained model does."""
