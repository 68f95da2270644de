import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from recsys.serving.daemon_threads import DaemonThreads
from recsys.serving.daemon_threads import is_computing

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


def test_what_is_computed_comes_back_or_is_raised() -> None:
    with DaemonThreads(2, "test") as threads:
        assert [*threads.map(abs, [-1, 2, -3])] == [1, 2, 3]
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 1, 0).result()
        assert threads.submit(int, "11", base=2).result() == 3


def test_a_thread_starts_when_no_other_is_free() -> None:
    names = set()
    with DaemonThreads(2, "test") as threads:
        for _ in range(20):
            name = threads.submit(lambda: threading.current_thread().name)
            names.add(name.result(60))
        both = threading.Barrier(2)  # Broken unless two are there at once.
        waiting = [threads.submit(both.wait, 60) for _ in range(2)]
        assert sorted(one.result(60) for one in waiting) == [0, 1]
    assert names <= {"test-0", "test-1"}


def test_work_waits_for_a_thread_and_may_be_given_up() -> None:
    end = threading.Event()
    with DaemonThreads(1, "test") as threads:
        first = threads.submit(end.wait, 60)
        given_up, last = threads.submit(int, "1"), threads.submit(int, "2")
        assert given_up.cancel()
        end.set()
        assert first.result(60)
        assert last.result(60) == 2
        with pytest.raises(CancelledError):
            given_up.result(60)


def test_threads_end_once_they_are_not_needed_any_more() -> None:
    with DaemonThreads(2, "test") as threads:
        thread = threads.submit(threading.current_thread).result(60)
    thread.join(60)
    assert not thread.is_alive()


def test_whether_something_is_computed() -> None:
    end = threading.Event()
    assert not is_computing()
    with DaemonThreads(1, "test") as threads:
        begun = threading.Event()
        threads.submit(lambda: (begun.set(), end.wait(60)))
        assert begun.wait(60)
        assert is_computing()
        end.set()
        (thread,) = threads._threads
    thread.join(60)
    assert not is_computing()


SCRIPT = """
import sys, threading
from recsys.serving.daemon_threads import DaemonThreads

begun = threading.Event()
def compute():
    begun.set()
    threading.Event().wait()
with DaemonThreads(1, "test") as threads:
    threads.submit(compute)
    begun.wait()
sys.exit(3)
"""


def test_a_process_does_not_wait_for_them() -> None:
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", SCRIPT]
    assert subprocess.run(words, cwd=root, timeout=60).returncode == 3
