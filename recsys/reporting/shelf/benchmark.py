import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Literal

from recsys.data.datasets.download import read_download
from recsys.data.formats.packed_file import CHUNK
from recsys.data.formats.packed_file import open_packed
from recsys.errors import DataError
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.task_scores import task_scores

_PACKED = ("", ".gz", ".xz")


@dataclass(frozen=True)
class ShelfFile:
    """A published file.

    Attributes:
        names: What it may be called, packed (`.gz`, `.xz`) or not; the first
            is its path in the archive, if there is one.
        sha256: The checksum of what is in it, unpacked.
        archive: Zip archive that it may be in, an option of that name of the
            data set. None unless given.
    """

    names: tuple[str, ...]
    sha256: str
    archive: str | None = None

    @property
    def shown(self) -> str:
        """Accepted names and the archive, as messages show them."""
        inside = "" if self.archive is None else f" in {self.archive}"
        return " or ".join(self.names) + inside

    def checked(self, folder: Path) -> str:
        """Returns the name of the file in a folder.

        Args:
            folder: The folder of the download.

        Raises:
            DataError: There is none, or one with another content.
        """
        if self.archive is not None:
            path, content = read_download(folder, self.archive, self.names[0])
            self._check(path, hashlib.sha256(content).hexdigest())
            return self.names[0]
        names = [name + end for name in self.names for end in _PACKED]
        files = [folder / name for name in names if (folder / name).is_file()]
        if not files:
            raise DataError.at(
                folder, f"one of the files {names}", "none of them"
            )
        digest = hashlib.sha256()
        with open_packed(files[0]) as stream:
            while part := stream.read(CHUNK):
                digest.update(part)
        self._check(files[0], digest.hexdigest())
        return files[0].name

    def _check(self, path: Path, digest: str) -> None:
        if digest != self.sha256:
            raise DataError.at(
                path,
                f"the published file, sha256 {self.sha256} (unpacked)",
                f"sha256 {digest}",
            )


@dataclass(frozen=True)
class Published:
    """A published row of a benchmark.

    Attributes:
        model: What was measured.
        values: One for each of the benchmark's metrics; `None` for what is not
            published, but for the last.
        source: Where it is published.
    """

    model: str
    values: tuple[float | None, ...]
    source: str


@dataclass(frozen=True)
class Setting:
    """A row of ours.

    Attributes:
        name: What is measured, the name of a folder, too.
        command: `"baseline"` or `"train"`.
        fields: Those of `BaselineConfig` or `TrainConfig`, but for `data`,
            `out`, `seed` and `metrics_k`.
        files: Which of the benchmark's optional files it needs.
        seeds: With how many seeds, 0, 1, ..., it is measured.
    """

    name: str
    command: Literal["baseline", "train"]
    fields: JsonMapping = field(default_factory=dict)
    files: tuple[str, ...] = ()
    seeds: int = 1


@dataclass(frozen=True)
class Benchmark:
    """A public benchmark with published figures.

    Attributes:
        title: Its title.
        protocol: How it is split and measured.
        about: Notes on the figures, below the table.
        data_set: What `recsys prepare` makes a data folder of its files with.
        files: The published files by the option of `data_set` that names
            them.
        optional: Which of these options only some settings need.
        options: Further options of `data_set`.
        k: Number of items for metrics.
        measured: What is measured, "retrieval" or "tasks".
        metrics: Names of retrieval's metrics, without `@k`; or those of the
            tasks, such as "watch auc", and "loss x 100".
        lower_is_better: Whether of the last metric the lowest is the best.
        settings: The rows of ours.
        published: The published rows.
        draws: On how many draws of the splits each row is measured, with the
            seeds 0, 1, ... of the data set. 1 where nothing is drawn.
    """

    title: str
    protocol: str
    about: str
    data_set: str
    files: Mapping[str, ShelfFile]
    settings: tuple[Setting, ...]
    published: tuple[Published, ...]
    optional: tuple[str, ...] = ()
    options: JsonMapping = field(default_factory=dict)
    k: int = 10
    measured: Literal["retrieval", "tasks"] = "retrieval"
    metrics: tuple[str, ...] = ("recall", "ndcg")
    lower_is_better: bool = False
    draws: int = 1

    @property
    def columns(self) -> list[str]:
        """The metrics as results name them."""
        if self.measured == "tasks":
            return list(self.metrics)
        return [f"{metric}@{self.k}" for metric in self.metrics]

    def values(self, test: JsonMapping) -> JsonObject:
        """Returns the metrics of a run by column.

        Args:
            test: What `metrics.json` has of its test split.
        """
        scores = test.get("retrieval", {})
        if self.measured == "tasks":
            scores = {**task_scores(test), "loss x 100": 100 * test["loss"]}
        return {name: scores[name] for name in self.columns}
