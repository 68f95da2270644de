from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.data.schema import Schema
from recsys.features import Id

# The input of a training row's statistics, which its own label is not in. No
# feature has a slash in front.
ROW_STATISTICS = "/statistics"
# A task of more has no statistics: each id would have a number for each class.
_MOST_CLASSES = 16
# Without being asked for: of fewer rows, ids have too few for the others to say
# something; of more, what is held in memory may take gigabytes.
_FEWEST_ROWS, _MOST_ROWS = 2_000, 5_000_000
_FACTORS = 16  # Numbers in a vector of `LabelFactors`.


@keras.saving.register_keras_serializable(package="recsys")
class TargetStatistics(keras.layers.Layer):
    """Statistics of the training labels for each id, as numbers of a row.

    A table for each feature has a row for each id, with zeros in row 0 for
    unknown ones. `recsys.models.label_deviations` computes the rows. Of two
    features, a row may also have vectors behind its numbers, whose product
    with those of the other feature is a number of the row:

        [a_user, a_item, ⟨p_user, q_item⟩ for each target]

    In a row that was trained on, its own label is among those of its ids. So a
    training gives each row the statistics of other rows as an input,
    `ROW_STATISTICS`; the tables serve rows without it.

    Attributes:
        tables: By feature, a weight `(rows, width)` that is not trained.

    Args:
        num_rows: By id feature, the rows of its table: known ids + 1.
        width: Integer, numbers for each id.
        num_products: Integer, the vectors for each id of two features.
            Defaults to 0.
        factors: Integer, numbers in such a vector. Defaults to 0.
        **kwargs: `name`, `dtype`.

    Call arguments:
        inputs: Dict of feature to int32 tensor `(batch,)`, and while training
            `ROW_STATISTICS` to a float32 tensor `(batch, output_width)`.

    Returns:
        Float32 tensor `(batch, output_width)`.

    Example:
    >>> statistics = TargetStatistics({"user": 3}, width=2)
    >>> statistics.build()
    >>> statistics.fill({"user": np.array([[0, 0], [1, 0.5], [-1, 0.5]])})
    >>> ops.convert_to_numpy(statistics({"user": np.array([2, 0])})).tolist()
    [[-1.0, 0.5], [0.0, 0.0]]

    References:
        Prokhorenkova, Gusev, Vorobev, Dorogush, Gulin. CatBoost: Unbiased
        Boosting with Categorical Features. NeurIPS 2018, section 3 (target
        statistics, and why those of a row are of other rows).
    """

    def __init__(
        self,
        num_rows: Mapping[str, int],
        width: int,
        num_products: int = 0,
        factors: int = 0,
        **kwargs: object,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_rows = dict(num_rows)
        self.width = width
        self.num_products = num_products
        self.factors = factors

    @property
    def output_width(self) -> int:
        """Numbers for each row."""
        return self.width * len(self.num_rows) + self.num_products

    def build(self, input_shape: Structure = None) -> None:
        self.tables = {
            name: self.add_weight(
                name=f"table_{index}",
                shape=(num_rows, self.width + self.num_products * self.factors),
                initializer="zeros",
                dtype="float32",
                trainable=False,
            )
            for index, (name, num_rows) in enumerate(self.num_rows.items())
        }
        self.built = True

    def fill(self, tables: Mapping[str, np.ndarray]) -> None:
        """Sets the tables: by feature, an array `(rows, width)`."""
        for name, values in tables.items():
            self.tables[name].assign(values)

    def held(self) -> dict[str, np.ndarray]:
        """Returns the tables as arrays."""
        return {
            name: ops.convert_to_numpy(table)
            for name, table in self.tables.items()
        }

    def of_unknown(
        self, inputs: Mapping[str, Tensor], are_unknown: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """Returns inputs with statistics of unknown ids in some rows.

        Products with vectors of an unknown id are 0.

        Args:
            inputs: As for `call`.
            are_unknown: By feature, boolean tensor `(batch,)`, which rows have
                an unknown id; in features that it lacks, none have.
        """
        if ROW_STATISTICS not in inputs or not {*self.tables} & {*are_unknown}:
            return inputs
        rows = inputs[ROW_STATISTICS]
        parts, is_any_unknown = [], ops.zeros_like(rows[:, 0], "bool")
        for place, (name, table) in enumerate(self.tables.items()):
            own = rows[:, place * self.width : (place + 1) * self.width]
            if name in are_unknown:
                is_unknown = are_unknown[name]
                is_any_unknown = ops.logical_or(is_any_unknown, is_unknown)
                of_unknown = table[0, : self.width]
                own = ops.where(is_unknown[:, None], of_unknown, own)
            parts.append(own)
        products = rows[:, len(parts) * self.width :]
        parts.append(ops.where(is_any_unknown[:, None], 0.0, products))
        return {**inputs, ROW_STATISTICS: ops.concatenate(parts, axis=-1)}

    def call(self, inputs: Mapping[str, Tensor]) -> Tensor:
        if ROW_STATISTICS in inputs:
            return inputs[ROW_STATISTICS]
        rows = [
            ops.take(table, inputs[name], axis=0)
            for name, table in self.tables.items()
        ]
        parts = [row[:, : self.width] for row in rows]
        if self.num_products:
            user, item = (row[:, self.width :] for row in rows)
            # (batch, num_products, factors)
            products = ops.reshape(
                user * item, (-1, self.num_products, self.factors)
            )
            parts.append(ops.sum(products, axis=-1))
        return ops.concatenate(parts, axis=-1)

    def compute_output_shape(self, input_shape: Structure) -> Shape:
        return (None, self.output_width)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_rows": self.num_rows,
            "width": self.width,
            "num_products": self.num_products,
            "factors": self.factors,
        }


def targets_by_task(
    tasks: Iterable[str], num_classes: Mapping[str, int]
) -> dict[str, int]:
    """Returns of how many targets there are statistics, by task.

    Args:
        tasks: The names of the tasks.
        num_classes: For each multiclass task, how many classes there are.

    Example:
    >>> targets_by_task(["watch", "kind", "shop"], {"kind": 3, "shop": 900})
    {'watch': 1, 'kind': 3}
    """
    targets = {task: num_classes.get(task, 1) for task in tasks}
    return {t: count for t, count in targets.items() if count <= _MOST_CLASSES}


def numbers_of(targets: Mapping[str, int]) -> int:
    """Returns how many numbers an id has: its deviations, its rows by task."""
    return sum(targets.values()) + len(targets)


def factors_of(columns: Sequence[str]) -> int:
    """Returns how many numbers a new model's vectors have, 0 for no vectors.

    Args:
        columns: The features with statistics.
    """
    return _FACTORS if len(columns) == 2 else 0


def products_of(targets: Mapping[str, int], factors: int) -> int:
    """Returns how many products a row has.

    Args:
        targets: By task, of how many targets there are some.
        factors: How many numbers vectors have, 0 for no vectors.
    """
    return sum(targets.values()) if factors else 0


def has_statistics(num_rows: int) -> bool:
    """Returns whether a model has statistics where nothing is said of them.

    Args:
        num_rows: How many training rows there are.

    Example:
    >>> has_statistics(500), has_statistics(100_000)
    (False, True)
    """
    return _FEWEST_ROWS <= num_rows <= _MOST_ROWS


def ids_with_statistics(schema: Schema) -> list[str]:
    """Returns the id features that are the user's and the item's, if any."""
    roles = dict.fromkeys([schema.user_id, schema.item_id])
    features = schema.features
    return [
        name
        for name in roles
        if name is not None and isinstance(features.get(name), Id)
    ]
