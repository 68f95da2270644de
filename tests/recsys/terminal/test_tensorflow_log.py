import logging

import pytest

from recsys.terminal.tensorflow_log import relevant_log


def test_only_the_messages_of_no_use_are_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("tensorflow")
    # What other libraries in the process may have changed.
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", True)
    caplog.set_level(logging.INFO, "tensorflow")
    with relevant_log():
        with relevant_log():
            logger.warning("Assets written to: %s", "inside")
        logger.warning("5 out of the last 5 calls triggered tf.function %s.", 1)
        logger.warning("%d calls triggered tf.function %s.", 5, "retracing")
        logger.warning("Assets written to: %s", "folder")
    logger.warning("Assets written to: %s", "another folder")
    assert caplog.messages == [
        "5 out of the last 5 calls triggered tf.function 1.",
        "Assets written to: another folder",
    ]
