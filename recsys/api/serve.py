import os
import re
import sys
import time
from contextlib import AbstractContextManager
from contextlib import closing
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from recsys.errors import FileError
from recsys.errors.reading import read_text
from recsys.errors.shown import shown
from recsys.serving.app import Api
from recsys.serving.daemon_threads import DaemonThreads
from recsys.serving.daemon_threads import is_computing
from recsys.serving.loaded_model import model_loader
from recsys.serving.model_store import ModelStore
from recsys.serving.monitoring.access_log import AccessLog
from recsys.serving.monitoring.request_log import RequestLog
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.serve_options import NAME
from recsys.serving.serve_options import ServeOptions
from recsys.serving.server import listen
from recsys.serving.server import run

TOKEN_VARIABLE = "RECSYS_SERVE_TOKEN"
# How many operations of a graph TensorFlow computes at a time, each of them on
# all cores: handing a ranker's small ones over to other threads costs half as
# much again as they do.
_OPERATIONS_VARIABLE = "TF_NUM_INTEROP_THREADS"
# One batch is computed at a time: the other threads are for those that come
# while one goes on that everybody has given up.
_THREADS = 4
_ABOUT_TO_END = 1.0  # Seconds.


def serve(model: str | Path, **options: Any) -> None:
    """Serves an exported model by HTTP until SIGTERM or Ctrl-C.

    It speaks TensorFlow Serving's REST API, prints its address once a version
    is served, and goes over to a new version of the model without dropping a
    request. A prediction that has not ended when the server does goes on in a
    daemon thread: `end_if_computing`.

    Args:
        model: Folder of the model, or of its versions 1, 2, ....
        **options: Fields of `recsys.serving.serve_options.ServeOptions`.

    Raises:
        FileError: There is no version that can be served.
        KeyboardInterrupt: Ctrl-C.
        OSError: The port cannot be had, or a log cannot be written.
        TypeError: An option has a value of another type.
        ValueError: There is no such option, or its value is out of bounds.
    """
    checked = ServeOptions(**options)
    os.environ.setdefault(_OPERATIONS_VARIABLE, "1")
    folder = Path(model).resolve()
    name = checked.name or folder.name
    if not re.fullmatch(NAME, name):
        raise ValueError(
            "`name` must consist of letters, digits, `.`, `_` and `-`; it is "
            f"the name of the folder by default. Received: {shown(name)}"
        )
    metrics = ServerMetrics()
    with (
        DaemonThreads(_THREADS, "predict") as executor,
        _access_log(checked.access_log) as access_log,
        _request_log(checked, metrics) as request_log,
    ):
        load = model_loader(checked, executor, metrics)
        store = ModelStore(folder, load, checked.policy)
        api = Api(name, store, checked, metrics, access_log, request_log)
        app = api.app()
        with listen(checked) as listener:
            port = listener.getsockname()[1]

            def ready() -> None:
                host = (
                    f"[{checked.host}]" if ":" in checked.host else checked.host
                )
                print(
                    f"Listening on http://{host}:{port}/v1/models/{name}",
                    flush=True,
                )
                if checked.is_public:
                    print(
                        "Whoever reaches this address can ask: there is no "
                        "token",
                        flush=True,
                    )

            refused = metrics.connection_refused
            run(app, store, checked, listener, ready, refused)


def _access_log(file: str | None) -> AbstractContextManager[AccessLog | None]:
    return nullcontext() if file is None else closing(AccessLog(file))


def _request_log(
    options: ServeOptions, metrics: ServerMetrics
) -> AbstractContextManager[RequestLog | None]:
    if options.log_requests is None:
        return nullcontext()
    folder = Path(options.log_requests)
    return closing(RequestLog(folder, options.sample, metrics.unlogged.inc))


def end_if_computing(status: int) -> None:
    """Ends the process if a prediction goes on that was given up.

    What is about to end, such as a look for new versions, has a second. Native
    code that goes on while Python takes its modules down would abort the
    process, with a status of its own.

    Args:
        status: What the process ends with.
    """
    last = time.monotonic() + _ABOUT_TO_END
    while is_computing() and time.monotonic() < last:
        time.sleep(0.01)
    if is_computing():
        print("Ended while something was computed.", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def read_token(file: Path | None) -> str | None:
    """Returns the token that requests must bear, if there is one.

    Args:
        file: File that holds nothing else; unless given, the environment
            variable `RECSYS_SERVE_TOKEN` may hold it.

    Raises:
        FileError: The file holds none.
        FileNotFoundError: There is no such file.
    """
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    token = read_text(file, "a token").strip()
    if not token or len(token.split()) > 1 or not token.isascii():
        raise FileError.at(file, "one word of ASCII characters", "none")
    return token
