import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")

_computing: set[threading.Thread] = set()


def is_computing() -> bool:
    """Returns whether some thread of `DaemonThreads` has work."""
    return bool(_computing)


class DaemonThreads(Executor):
    """Threads that a process does not wait for when it ends.

    It does for those of `ThreadPoolExecutor`, and would go on as long as a
    prediction that does not end.

    Args:
        most: How many threads there are at most; each starts when there is
            work that no other is free for.
        name: What the names of the threads begin with.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None]
        self._work = queue.SimpleQueue()
        self._free = threading.Semaphore(0)  # Threads without work.
        self._threads: list[threading.Thread] = []

    def submit(
        self, fn: Callable[..., Result], /, *args: object, **kwargs: object
    ) -> "Future[Result]":
        future: Future[Result] = Future()

        def compute() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._work.put(compute)
        if not self._free.acquire(blocking=False):
            self._start()
        return future

    def _start(self) -> None:
        if len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (compute := self._work.get()) is not None:
            _computing.add(threading.current_thread())
            compute()
            _computing.remove(threading.current_thread())
            del compute  # It may hold a batch until the next one comes.
            self._free.release()

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        """Lets each thread end after its work; it waits for none."""
        for _ in self._threads:
            self._work.put(None)
