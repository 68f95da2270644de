import os
import signal
import threading

import pytest

from recsys.training.callbacks.interruption import Interruption

pytestmark = pytest.mark.once("torch")


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_within_a_batch(times: int = 1, batch_ends: bool = True) -> None:
    with Interruption() as interruption:
        interruption.on_train_batch_end(0)
        for _ in range(times):
            press_ctrl_c()
        if batch_ends:
            interruption.on_train_batch_end(1)
            pytest.fail("The batch has ended without KeyboardInterrupt.")


def test_first_one_waits_for_the_end_of_the_batch() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_within_a_batch()


def test_second_one_acts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_within_a_batch(times=2)


def test_one_after_the_last_batch_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_within_a_batch(batch_ends=False)


def test_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_other_threads_are_left_alone() -> None:
    failures: list[BaseException] = []

    def enter() -> None:
        try:
            with Interruption() as interruption:
                interruption.on_train_batch_end(0)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not failures
