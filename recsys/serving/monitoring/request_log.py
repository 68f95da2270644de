import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from datetime import datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from recsys.errors.shown import printable
from recsys.files.atomic import replacing
from recsys.serving.monitoring.request_columns import SERVED
from recsys.serving.monitoring.request_columns import RequestColumns
from recsys.serving.tensor_spec import Arrays

_LOG = logging.getLogger("recsys.serving")
_MOST_QUEUED = 1000  # Requests.
_PART_ROWS = 10_000
_PART_SECONDS = 60.0


@dataclass(frozen=True)
class LoggedRequest:
    """A request to be logged.

    Attributes:
        columns: What names its columns.
        request_id: Its id.
        version: The version that answered it.
        inputs: By name, arrays `(rows, ...)`.
        outputs: The same.
    """

    columns: RequestColumns
    request_id: str
    version: int
    inputs: Arrays
    outputs: Arrays


class RequestLog:
    """A folder of Parquet files with a sample of the requests.

    A thread writes a part for every 10,000 rows or minute, whichever comes
    first, and what is left when the log is closed. Each part appears whole.
    Beside features and outputs, the columns are `served/request`,
    `served/version` and `served/time`.

    Args:
        folder: The folder; it is created.
        share: Probability of a request to be logged, in (0, 1].
        on_dropped: Called for each request of the sample that is not logged,
            since too many wait or the folder cannot be written.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(
        self, folder: Path, share: float, on_dropped: Callable[[], None]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._share = share
        self._on_dropped = on_dropped
        self._random = random.Random()
        self._numbers = count()
        self._queue: queue.Queue[LoggedRequest | None] = queue.Queue(
            _MOST_QUEUED
        )
        self._thread = threading.Thread(
            target=self._write, name="request-log", daemon=True
        )
        self._thread.start()

    def draws(self) -> bool:
        """Draws whether the next request is logged."""
        return self._random.random() < self._share

    def add(self, request: LoggedRequest) -> None:
        """Logs a request, unless too many wait."""
        try:
            self._queue.put_nowait(request)
        except queue.Full:
            self._on_dropped()

    def close(self) -> None:
        """Writes what is left."""
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        """Writes part after part until the log is closed."""
        tables: list[pa.Table] = []
        rows, last = 0, 0.0
        while True:
            try:
                left = last - time.monotonic() if tables else None
                request = self._queue.get(
                    timeout=None if left is None else max(0.0, left)
                )
            except queue.Empty:
                self._write_part(tables)
                tables, rows = [], 0
                continue
            if request is None:
                self._write_part(tables)
                return
            table = _table(request)
            # Another version may have other features.
            if tables and table.schema != tables[0].schema:
                self._write_part(tables)
                tables, rows = [], 0
            if not tables:
                last = time.monotonic() + _PART_SECONDS
            tables.append(table)
            rows += len(table)
            if rows >= _PART_ROWS:
                self._write_part(tables)
                tables, rows = [], 0

    def _write_part(self, tables: list[pa.Table]) -> None:
        if not tables:
            return
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        file = self._folder / f"{now}-{next(self._numbers)}.parquet"
        try:
            with replacing(file) as unfinished:
                pq.write_table(pa.concat_tables(tables), unfinished)
        except OSError as error:
            for _ in tables:
                self._on_dropped()
            _LOG.error("requests are not logged: %s", printable(str(error)))


def _table(request: LoggedRequest) -> pa.Table:
    table = request.columns.table(request.inputs, request.outputs)
    rows = len(table)
    now = datetime.now(UTC)
    for name, value, kind in (
        ("request", request.request_id, pa.string()),
        ("version", request.version, pa.int64()),
        ("time", now, pa.timestamp("ms", "UTC")),
    ):
        column = pa.array([value] * rows, kind)
        table = table.append_column(SERVED + name, column)
    return table
