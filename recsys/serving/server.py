"""Runs the application until it is to end."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from recsys.errors.shown import printable
from recsys.serving.bounded_http import HttpBounds
from recsys.serving.bounded_http import bounded_http
from recsys.serving.connection_close import CloseAtEnd
from recsys.serving.daemon_threads import DaemonThreads
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.model_store import ModelStore
from recsys.serving.serve_options import ServeOptions

_LOG = logging.getLogger("recsys.serving")
_BACKLOG = 256  # Connections that may be accepted at once.
_FILES = 128  # Those of the model, the log and the process itself.
# Seconds after which a thread makes way for another one: the loop, which
# answers whether the server is alive, comes in turn with all others.
_SWITCH_SECONDS = 0.001


def listen(options: ServeOptions) -> socket.socket:
    """Takes the port of a server.

    Raises:
        OSError: It cannot be had.
    """
    is_ipv6 = ":" in options.host
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    try:
        listener = socket.create_server(
            (options.host, options.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        place = f"{options.host}:{options.port}"
        # Python says the address once more.
        problem = (error.strerror or str(error)).partition(" (while")[0]
        raise OSError(error.errno, problem, place) from None
    # What is accepted inherits it. Otherwise the body of an answer waits for
    # the client to acknowledge the head, 40 ms on Linux.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run(
    app: ASGIApp,
    store: ModelStore[LoadedModel],
    options: ServeOptions,
    listener: socket.socket,
    ready: Callable[[], None],
    on_refused: Callable[[], None],
) -> None:
    """Serves until SIGTERM or Ctrl-C, then finishes what is under way.

    Args:
        app: The application.
        store: What is kept up to date meanwhile.
        options: How it is served.
        listener: Where requests come in; it is closed.
        ready: Called once a version is served.
        on_refused: Called for each connection beyond the most.

    Raises:
        FileError: There is no version that can be served.
        KeyboardInterrupt: Ctrl-C.
    """
    bounds = HttpBounds(
        min(options.head_timeout, options.request_timeout),
        options.request_timeout,
        min(options.max_connections, _connections_with_files()),
        on_refused=on_refused,
    )
    config = uvicorn.Config(
        CloseAtEnd(app, lambda: server.should_exit),
        http=bounded_http(bounds),
        backlog=_BACKLOG,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # `AccessLog` has more to tell.
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(options.request_timeout) + 5,
    )
    server = uvicorn.Server(config)
    with (
        _log_lines(),
        _end_in_peace(),
        _quick_turns(),
        asyncio.Runner(loop_factory=config.get_loop_factory()) as runner,
    ):
        runner.run(_serve(server, store, options, listener, ready))


async def _serve(
    server: uvicorn.Server,
    store: ModelStore[LoadedModel],
    options: ServeOptions,
    listener: socket.socket,
    ready: Callable[[], None],
) -> None:
    def end(_: object) -> None:
        server.should_exit = True

    watch = asyncio.create_task(_watch(store, options.poll_seconds, ready))
    watch.add_done_callback(end)  # Only an error ends it.
    try:
        await server.serve(sockets=[listener])
    finally:
        if watch.done():
            watch.result()
        watch.cancel()
        gc.unfreeze()


async def _watch(
    store: ModelStore[LoadedModel],
    seconds: float,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Looks for new versions for ever, once there is one at all."""
    loop = asyncio.get_running_loop()
    # Of its own: whoever ends the server does not wait for a model to load.
    loading = DaemonThreads(1, "load")
    await loop.run_in_executor(loading, store.refresh)
    store.check_served()
    ready()
    kept = {*store.current.by_number}
    _keep_what_is_there()
    before = ""
    while True:
        await asyncio.sleep(seconds)
        # By now nobody asks a version before any more.
        if {*store.current.by_number} != kept:
            kept = {*store.current.by_number}
            _keep_what_is_there()
        try:
            await loop.run_in_executor(loading, store.refresh)
        except OSError as error:
            problem = printable(str(error))
            if problem != before:
                _LOG.error("cannot look for new versions: %s", problem)
            before = problem
        else:
            before = ""


def _keep_what_is_there() -> None:
    """Lets later garbage collections pass over all objects that there are.

    Those of TensorFlow and of a model are hundreds of thousands: every few
    thousand requests, all others would wait until they had been gone through.
    """
    gc.unfreeze()  # Of a version before, what is garbage now.
    gc.collect()
    gc.freeze()


def _connections_with_files() -> int:
    """Most connections that leave enough files to open for all else."""
    if sys.platform == "win32":  # It has no such limit.
        return sys.maxsize
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(1, files - _BACKLOG - _FILES, files // 2)


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Lets threads take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _end_in_peace() -> Iterator[None]:
    """Lets SIGTERM be no error, which uvicorn sends again once it has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _log_lines() -> Iterator[None]:
    """Writes a line for each event to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    levels = {"recsys.serving": logging.INFO, "uvicorn.error": logging.WARNING}
    loggers = {logging.getLogger(name): levels[name] for name in levels}
    before = {log: (log.level, log.propagate) for log in loggers}
    for log, level in loggers.items():
        log.addHandler(handler)
        log.setLevel(level)
        log.propagate = False
    try:
        yield
    finally:
        for log, (level, propagate) in before.items():
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate
