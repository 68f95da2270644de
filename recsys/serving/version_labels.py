"""Names of versions, which move from one to another without a restart.

They are in a file of the folder of versions, not in an option: whoever gives a
new version to all users, or takes it back, writes to the folder that it is in,
and need not restart servers.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.serving.serve_options import NAME

_LOG = logging.getLogger("recsys.serving")
LABELS_FILE = "labels.json"


def read_labels(folder: Path) -> dict[str, int]:
    """Returns the version that each label is for; none without a file.

    Args:
        folder: Folder of the versions.

    Raises:
        FileError: The file is broken.
    """
    file = folder / LABELS_FILE
    expected = 'JSON with a version by label, such as {"stable": 3}'
    try:
        with reading(file, expected):
            labels: dict[str, int] = read_json(file)
            for label, version in labels.items():
                if not re.fullmatch(NAME, label) or type(version) is not int:
                    raise FileError.at(
                        file, expected, f"{label!r}: {version!r}"
                    )
            return labels
    except FileNotFoundError:
        return {}


class VersionLabels:
    """The labels of a folder of versions, read again and again.

    While the file cannot be read, as while it is being written, labels stay.

    Attributes:
        wanted: The version that each label is for.

    Args:
        folder: Folder of the versions.

    Raises:
        FileError: The file is broken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problem = ""
        self.wanted: Mapping[str, int] = read_labels(folder)

    def refresh(self) -> None:
        """Reads the file again; logs once what is wrong with it."""
        problem = ""
        try:
            self.wanted = read_labels(self._folder)
        except (FileError, OSError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            _LOG.error("labels stay as they are: %s", problem)
        self._problem = problem
