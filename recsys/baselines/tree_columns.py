from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recsys.baselines.array_folder import ArrayFolder
from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.errors.reading import reading
from recsys.errors.shapes import check_shape
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary

MOST_CATEGORIES = 256  # Of a column that trees split by category.
COMMON_IDS = 64  # Of lists, those with a column of their own.


class TreeColumns:
    """The columns of numbers that boosted trees split on.

    * Numbers and vectors stay as they are, NaN where missing.
    * An id with at most 256 values, the unknown one included, is a category;
      one with more has the number of its training rows in its place.
    * A list of ids has its length, and how often (or with what weight) each
      of the 64 most frequent ids is in it.

    Args:
        features: The features by name, fitted to the training split.
        counts: For each feature of ids, how often each of its numbers is in
            the training split.
    """

    def __init__(
        self,
        features: Mapping[str, FittedFeature],
        counts: Mapping[str, np.ndarray],
    ) -> None:
        self.features = features
        self.counts = counts

    @classmethod
    def fit(cls, dataset: Dataset) -> "TreeColumns":
        """Learns the ids of the training split.

        Args:
            dataset: The data set.
        """
        kinds, train = dataset.schema.features, dataset.split("train")
        features: dict[str, FittedFeature] = {}
        counts = {}
        for name in sharing_last(kinds):
            feature = kinds[name].fit([train[name]], features)
            features[name] = feature
            values = feature.encode(train[name])
            if values.dtype.kind == "i":
                codes = codes_and_weights(values)[0]
                counts[name] = np.bincount(codes[codes >= 0])
        return cls({name: features[name] for name in kinds}, counts)

    def encode(self, rows: Split) -> tuple[np.ndarray, list[int], np.ndarray]:
        """Returns the numbers of rows.

        Args:
            rows: A column for each feature.

        Returns:
            The numbers, float64 `(rows, columns)`; the places of the columns
            that are categories; and the numbers of the ids of each feature
            that has one a row, integers `(rows, features)`.
        """
        columns: list[np.ndarray] = []
        categories, ids = [], []
        for name, feature in self.features.items():
            values = feature.encode(rows[name])
            if values.dtype.kind != "i":
                columns.extend(np.atleast_2d(values.T))
            elif values.ndim > 1:
                columns.extend(_of_lists(values, self.counts[name]))
            else:
                ids.append(values)
                few = (feature.num_rows or 0) <= MOST_CATEGORIES
                if few:
                    categories.append(len(columns))
                columns.append(
                    values if few else _looked_up(self.counts[name], values)
                )
        shape = (len(rows), 0)
        numbers = np.stack(columns, 1) if columns else np.zeros(shape)
        return (
            numbers.astype(np.float64),
            categories,
            np.stack(ids, 1) if ids else np.zeros(shape, np.int32),
        )

    def write(self, folder: Path) -> None:
        """Writes what was fitted to a folder."""
        files = ArrayFolder(folder)
        states = {}
        for number, (name, feature) in enumerate(self.features.items()):
            states[name] = feature.get_state()
            if (vocabulary := _own_vocabulary(feature)) is not None:
                files.write_ids(f"feature_{number}_ids", vocabulary.values)
            if name in self.counts:
                counts = self.counts[name]
                files.write({f"feature_{number}_counts": counts})
        write_json(folder / "features.json", states)

    @classmethod
    def read(cls, folder: Path, schema: Schema) -> "TreeColumns":
        """Reads what `write` has written.

        Args:
            folder: The folder.
            schema: That of the data set.

        Raises:
            FileError: A file is missing or broken.
        """
        file, kinds = folder / "features.json", schema.features
        shape = dict[str, JsonObject]
        states = check_shape(read_json(file), shape, file)
        numbers = {name: number for number, name in enumerate(kinds)}
        files = ArrayFolder(folder)
        features: dict[str, FittedFeature] = {}
        counts = {}
        for name in sharing_last(kinds):
            with reading(file, f"what was fitted of feature {name!r}"):
                feature = kinds[name].restore(states[name], features)
            features[name] = feature
            place = f"feature_{numbers[name]}"
            if (vocabulary := _own_vocabulary(feature)) is not None:
                vocabulary.values = files.read_ids(f"{place}_ids")
                vocabulary.check(name)
            if (folder / f"{place}_counts.npy").exists():
                counts[name] = files.read(f"{place}_counts", None)
        return cls({name: features[name] for name in kinds}, counts)


def _own_vocabulary(feature: FittedFeature) -> "Vocabulary | None":
    return feature.vocabulary if feature.of is None else None


def codes_and_weights(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of ids, -1 where there is none, and their weights.

    Args:
        values: What `encode` of a feature of ids returns.
    """
    if values.ndim < 3:
        return values, np.ones(values.shape, np.float32)
    # Lists of weighted ids hold the bits of the weights behind the numbers.
    return values[..., 0], np.ascontiguousarray(values[..., 1]).view(np.float32)


def _of_lists(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The columns of lists, `(1 + ids, rows)`."""
    codes, weights = codes_and_weights(values)
    known = np.array(counts, copy=True)
    known[:1] = 0  # Whatever is unknown is none of the frequent ids.
    common = np.argsort(-known, kind="stable")[:COMMON_IDS]
    common = common[known[common] > 0]
    places = np.full(max(len(known), int(codes.max(initial=0)) + 1), -1)
    places[common] = np.arange(len(common))
    rows, _ = np.nonzero(there := codes >= 0)
    positions = places[codes[there]]
    columns = np.zeros((1 + len(common), len(codes)))
    columns[0] = there.sum(axis=1)
    chosen = positions >= 0
    np.add.at(
        columns, (positions[chosen] + 1, rows[chosen]), weights[there][chosen]
    )
    return columns


def _looked_up(counts: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The count of each number; none of what came later."""
    known = codes < len(counts)
    return np.where(known, counts[np.where(known, codes, 0)], 0)
