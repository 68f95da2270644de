import logging
from collections.abc import Iterator
from contextlib import contextmanager

# TensorFlow takes all models that Keras compiles for one function, which is
# traced too often; and it names a folder that is renamed once it is complete.
_OF_NO_USE = ("triggered tf.function retracing", "Assets written to")


def _is_of_use(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return not any(words in message for words in _OF_NO_USE)


@contextmanager
def relevant_log() -> Iterator[None]:
    """Leaves out what TensorFlow logs about the package, not about its user.

    A process that trains, predicts and exports has several models, each
    compiled once, and TensorFlow warns of frequent retracing. In a notebook
    it also logs where it writes. May be entered again inside.

    Example:
    >>> with relevant_log():
    ...     logging.getLogger("tensorflow").error("Assets written to: x")
    """
    logger = logging.getLogger("tensorflow")
    if _is_of_use in logger.filters:
        yield
        return
    logger.addFilter(_is_of_use)
    try:
        yield
    finally:
        logger.removeFilter(_is_of_use)
