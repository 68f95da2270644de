import json
import logging
import sys
from datetime import UTC
from datetime import datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from recsys.files.json_files import JsonObject

STANDARD_ERROR = "-"


class AccessLog:
    """A file with a line of JSON per request.

    Lines are appended; a file that was moved away, as log rotation does, is
    written anew.

    Args:
        file: The file; `"-"` for the standard error.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, file: str) -> None:
        self._handler: logging.StreamHandler[Any]
        if file == STANDARD_ERROR:
            self._handler = logging.StreamHandler(sys.stderr)
        else:
            self._handler = WatchedFileHandler(Path(file), encoding="utf-8")

    def write(self, entry: JsonObject) -> None:
        """Writes a line, with the time before what is given."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **entry})
        self._handler.emit(
            logging.makeLogRecord({"msg": line, "levelno": logging.INFO})
        )

    def close(self) -> None:
        """Closes the file."""
        self._handler.close()
