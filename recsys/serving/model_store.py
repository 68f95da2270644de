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
from recsys.serving.promotion import NotPromotedError
from recsys.serving.request_error import ConflictError
from recsys.serving.runner import FILES
from recsys.serving.served_versions import Served
from recsys.serving.served_versions import ServedVersions
from recsys.serving.served_versions import log_changes
from recsys.serving.version_folders import ROLLBACKS_FILE
from recsys.serving.version_folders import find_versions
from recsys.serving.version_folders import fingerprint
from recsys.serving.version_folders import read_rollbacks
from recsys.serving.version_folders import write_rollbacks
from recsys.serving.version_labels import VersionLabels
from recsys.serving.version_policy import HIGHEST
from recsys.serving.version_policy import VersionPolicy

Model = TypeVar("Model")

_LOG = logging.getLogger("recsys.serving")
_MOST_OF_MESSAGE = 2000  # Letters.


@dataclass(frozen=True)
class _Broken:
    """A version that could not be loaded."""

    fingerprint: object
    message: str


class ModelStore(Generic[Model]):
    """The versions of a model that answer requests, each loaded once.

    Versions are folders `1`, `2`, ... of a folder, as TensorFlow Serving has
    them, or the folder itself, which is version 1 then. Served are those of
    the policy and, besides, those that have a label. A version that cannot
    be loaded is tried again once its files have changed. A version that was
    rolled back is not served again, also after a restart.

    A label goes over to another version once that is loaded, and stays where
    it is until then. The label of a version that was rolled back goes over to
    the highest lower one that can be loaded.

    Attributes:
        current: The versions that answer. It is replaced as a whole, once all
            that is new is loaded: whoever has taken a version of it can go on
            with that.

    Args:
        folder: Where the versions are.
        load: Loads the model in a folder.
        policy: Which versions are served; the highest one unless given.

    Raises:
        FileError: The file of labels, or of rolled back versions, is broken.
    """

    def __init__(
        self,
        folder: Path,
        load: Callable[[Path], Model],
        policy: VersionPolicy = HIGHEST,
    ) -> None:
        self.current: ServedVersions[Model] = ServedVersions()
        self._folder = folder
        self._load = load
        self._policy = policy
        self._models: dict[int, Served[Model]] = {}
        self._loading: int | None = None
        self._broken: dict[int, _Broken] = {}
        self._all_removed = False
        self._rolled_back = read_rollbacks(folder)
        self._labels = VersionLabels(folder)
        self._changing = threading.Lock()

    @property
    def served(self) -> Served[Model] | None:
        """What answers requests without a version; `None` before any is."""
        return self.current.default

    def refresh(self) -> None:
        """Looks for versions and labels, and loads what is to be served.

        What has answered until then goes on until another one can, also when
        it is removed and no other is left.
        """
        with self._changing:
            self._refresh()

    def _refresh(self) -> None:
        self._labels.refresh()
        folders = find_versions(self._folder)
        self._broken = {
            version: broken
            for version, broken in self._broken.items()
            if version in folders
        }
        chosen = self._choose(folders)
        default = next(iter(chosen), None) or self._kept()
        labelled = {
            label: self._labelled(label, version, folders)
            for label, version in self._labels.wanted.items()
        }
        by_label = {label: it for label, it in labelled.items() if it}
        all_of_them = {
            it.version: it
            for it in (*chosen, default, *by_label.values())
            if it
        }
        by_number = dict(sorted(all_of_them.items(), reverse=True))
        before, self.current = (
            self.current,
            ServedVersions(default, by_number, by_label, self._labels.wanted),
        )
        self._models = {**by_number}
        log_changes(before, self.current)

    def _choose(self, folders: dict[int, Path]) -> list[Served[Model]]:
        """The versions of the policy that can be loaded, the highest first."""
        chosen: list[Served[Model]] = []
        for version in self._policy.candidates(folders):
            if len(chosen) == self._policy.most:
                break
            if (served := self._get(version, folders)) is not None:
                chosen.append(served)
        self._all_removed = self._all_removed and not chosen
        return chosen

    def _kept(self) -> Served[Model] | None:
        """What goes on, since nothing else is there."""
        default = self.current.default
        if default is not None and not self._all_removed:
            _LOG.warning(
                "version %s is gone and no other can be loaded: it stays",
                default.version,
            )
            self._all_removed = True
        return default

    def _labelled(
        self, label: str, version: int, folders: dict[int, Path]
    ) -> Served[Model] | None:
        """What answers requests with a label, `None` if nothing can."""
        before = self.current.by_label.get(label)
        for choice in (version, *([before.version] if before else [])):
            lower: list[int] = []
            if choice in self._rolled_back:
                lower = [number for number in folders if number < choice]
            for number in (choice, *sorted(lower, reverse=True)):
                if (served := self._get(number, folders)) is not None:
                    return served
        return None

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
            folders = find_versions(self._folder)
            lower = [
                version
                for version in self._policy.candidates(folders)
                if left is not None
                and version < left.version
                and version not in self._rolled_back
            ]
            for version in lower:
                if left is not None and self._get(version, folders):
                    self._reject(left.version)
                    self._refresh()
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
        versions = sorted(find_versions(self._folder))
        if self._policy.numbers is not None and versions:
            raise FileError.at(
                self._folder,
                f"one of the versions {sorted(self._policy.numbers)}",
                f"{versions}",
            )
        raise FileError.at(
            self._folder,
            f"a file of {FILES}, or folders 1, 2, ... with one of them",
            "none" if self._folder.is_dir() else "no folder",
        )

    def statuses(
        self, current: ServedVersions[Model] | None = None
    ) -> list[JsonObject]:
        """Returns the versions as TensorFlow Serving's status has them.

        Args:
            current: Those that are available; `self.current` unless given.
        """
        versions = {
            version: _status(version, "END", broken.message)
            for version, broken in dict(self._broken).items()
        }
        for version in {*self._rolled_back}:
            versions[version] = _status(version, "END", "rolled back")
        if self._loading is not None:
            versions[self._loading] = _status(self._loading, "LOADING")
        for version in (current or self.current).by_number:
            versions[version] = _status(version, "AVAILABLE")
        return [versions[version] for version in sorted(versions, reverse=True)]

    def _get(
        self, version: int, folders: dict[int, Path]
    ) -> Served[Model] | None:
        """Returns a version, loaded if need be; `None` if it cannot be."""
        if version in self._rolled_back:
            return None
        if version not in self._models and version in folders:
            self._try(version, folders[version])
        return self._models.get(version)

    def _try(self, version: int, path: Path) -> None:
        """Loads a version unless it was broken and is as it was."""
        files = fingerprint(path)
        before = self._broken.get(version)
        if before is not None and before.fingerprint == files:
            return
        self._loading = version
        try:
            model = self._load(path)
        except Exception as error:
            problem = str(error) or type(error).__name__
            message = printable(shortened(problem, _MOST_OF_MESSAGE))
            self._broken[version] = _Broken(files, message)
            if before is None or before.message != message:
                waits = isinstance(error, NotPromotedError)
                level = logging.INFO if waits else logging.ERROR
                _LOG.log(
                    level, "version %s cannot be served: %s", version, message
                )
            return
        finally:
            self._loading = None
        self._broken.pop(version, None)
        self._models[version] = Served(version, model)


def _status(version: int, state: str, message: str = "") -> JsonObject:
    code = "UNKNOWN" if message else "OK"
    return {
        "version": str(version),
        "state": state,
        "status": {"error_code": code, "error_message": message},
    }
