import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic
from typing import TypeVar

from recsys.errors import FileError
from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.files.json_files import JsonObject
from recsys.serving.request_error import ConflictError
from recsys.serving.rollbacks import ROLLBACKS_FILE
from recsys.serving.rollbacks import read_rollbacks
from recsys.serving.rollbacks import write_rollbacks
from recsys.serving.runner import FILES
from recsys.serving.runner import holds_model

Model = TypeVar("Model")

_LOG = logging.getLogger("recsys.serving")
_FLAT_VERSION = 1
_MOST_OF_MESSAGE = 2000  # Letters.
_LARGEST_VERSION = 2**63 - 1


@dataclass(frozen=True)
class Served(Generic[Model]):
    """The version that answers requests."""

    version: int
    model: Model


@dataclass(frozen=True)
class _Broken:
    """A version that could not be loaded."""

    fingerprint: object
    message: str


class ModelStore(Generic[Model]):
    """The highest version of a model that can be loaded.

    Versions are folders `1`, `2`, ... of a folder, as TensorFlow Serving has
    them, or the folder itself, which is version 1 then. A version that cannot
    be loaded is tried again once its files have changed. A version that was
    rolled back is not served again, also after a restart.

    Attributes:
        served: The version that answers; `None` before the first `refresh`
            that has found one. It is replaced as a whole: whoever has taken
            it can go on with it.

    Args:
        folder: Where the versions are.
        load: Loads the model in a folder.

    Raises:
        FileError: The file of rolled back versions is broken.
    """

    def __init__(self, folder: Path, load: Callable[[Path], Model]) -> None:
        self.served: Served[Model] | None = None
        self._folder = folder
        self._load = load
        self._loading: int | None = None
        self._broken: dict[int, _Broken] = {}
        self._all_removed = False
        self._rolled_back = read_rollbacks(folder)
        self._changing = threading.Lock()

    def refresh(self) -> None:
        """Looks for versions and loads the highest one that can be.

        What has answered until then goes on until another one can, also when
        it is removed and no other is left.
        """
        with self._changing:
            self._refresh()

    def _refresh(self) -> None:
        folders = self._find()
        self._broken = {
            version: broken
            for version, broken in self._broken.items()
            if version in folders
        }
        for version in sorted(folders, reverse=True):
            if self.served is not None and version == self.served.version:
                break
            if version in self._rolled_back:
                continue
            if self._try(version, folders[version]):
                break
        removed = self.served is not None and self.served.version not in folders
        if removed and not self._all_removed:
            _LOG.warning(
                "version %s is gone and no other can be loaded: it stays",
                self.served and self.served.version,
            )
        self._all_removed = removed

    def rollback(self) -> tuple[int, int]:
        """Goes back to the highest lower version that can be loaded.

        The version that was left is not served again.

        Returns:
            The version that was left, and the one that is served now.

        Raises:
            ConflictError: There is no lower version that can be served; the
                current one goes on.
        """
        with self._changing:
            left = self.served
            folders = self._find()
            lower = [
                version
                for version in sorted(folders, reverse=True)
                if left is not None
                and version < left.version
                and version not in self._rolled_back
            ]
            for version in lower:
                if left is not None and self._try(version, folders[version]):
                    self._reject(left.version)
                    return left.version, version
            raise ConflictError.at(
                "rollback",
                "a lower version that can be served",
                f"{len(lower)} lower ones, none of which can"
                if lower
                else "none",
            )

    def _reject(self, version: int) -> None:
        self._rolled_back.add(version)
        try:
            write_rollbacks(self._folder, self._rolled_back)
        except OSError as error:
            _LOG.warning(
                "version %s will be served again after a restart: %s",
                version,
                printable(str(error)),
            )

    def check_served(self) -> None:
        """Checks that some version could be loaded.

        Raises:
            FileError: None could.
        """
        if self.served is not None:
            return
        if self._broken:
            raise FileError(self._broken[max(self._broken)].message)
        if self._rolled_back:
            raise FileError.at(
                self._folder / ROLLBACKS_FILE,
                "a version that was not rolled back",
                f"{sorted(self._rolled_back)} rolled back, no other there",
            )
        raise FileError.at(
            self._folder,
            f"a file of {FILES}, or folders 1, 2, ... with one of them",
            "none" if self._folder.is_dir() else "no folder",
        )

    def statuses(self) -> list[JsonObject]:
        """Returns the versions as TensorFlow Serving's status has them."""
        versions = {
            version: _status(version, "END", broken.message)
            for version, broken in dict(self._broken).items()
        }
        for version in {*self._rolled_back}:
            versions[version] = _status(version, "END", "rolled back")
        if self._loading is not None:
            versions[self._loading] = _status(self._loading, "LOADING")
        if self.served is not None:
            available = self.served.version
            versions[available] = _status(available, "AVAILABLE")
        return [versions[version] for version in sorted(versions, reverse=True)]

    def _find(self) -> dict[int, Path]:
        folders = {}
        if holds_model(self._folder):
            folders[_FLAT_VERSION] = self._folder
        for path in self._folder.iterdir() if self._folder.is_dir() else []:
            version = _version(path.name)
            if version is not None and path.is_dir():
                folders[version] = path
        return folders

    def _try(self, version: int, path: Path) -> bool:
        """Loads a version; returns whether it is served now."""
        fingerprint = _fingerprint(path)
        before = self._broken.get(version)
        if before is not None and before.fingerprint == fingerprint:
            return False
        self._loading = version
        try:
            model = self._load(path)
        except Exception as error:
            problem = str(error) or type(error).__name__
            message = printable(shortened(problem, _MOST_OF_MESSAGE))
            self._broken[version] = _Broken(fingerprint, message)
            if before is None or before.message != message:
                _LOG.error("version %s cannot be served: %s", version, message)
            return False
        finally:
            self._loading = None
        self._broken.pop(version, None)
        replaced = self.served
        self.served = Served(version, model)
        _LOG.info(
            "version %s is served%s",
            version,
            f" instead of {replaced.version}" if replaced else "",
        )
        return True


def _version(name: str) -> int | None:
    if not (name.isascii() and name.isdigit() and len(name) < 20):
        return None
    version = int(name)
    is_plain = str(version) == name and version <= _LARGEST_VERSION
    return version if is_plain else None


def _fingerprint(folder: Path) -> object:
    """Value that changes when a file below a folder does."""
    files = []
    for path in sorted(folder.rglob("*")):
        try:
            stat = path.stat()
        except OSError:  # Removed meanwhile.
            continue
        files.append((str(path), stat.st_size, stat.st_mtime_ns))
    return files


def _status(version: int, state: str, message: str = "") -> JsonObject:
    code = "UNKNOWN" if message else "OK"
    return {
        "version": str(version),
        "state": state,
        "status": {"error_code": code, "error_message": message},
    }
