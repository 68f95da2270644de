from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
import numpy as np
import pandas as pd
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.columns.kind import Declaration
from recsys.columns.kind import declared
from recsys.data.columns import parse
from recsys.data.left_out import left_out
from recsys.data.left_out import with_missing
from recsys.features import FEATURES
from recsys.features import Feature
from recsys.features import Id
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.models.id_embedding import IdEmbedding
from recsys.models.id_embedding import look_up
from recsys.models.id_embedding import table_widths
from recsys.models.multi_task_model import LayerInputs
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.random_intercepts import RandomIntercepts
from recsys.models.scenarios.scenario_model import ScenarioModel
from recsys.models.small_tables import is_small
from recsys.models.small_tables import look_up_small
from recsys.models.target_statistics import TargetStatistics
from recsys.models.target_statistics import numbers_of
from recsys.models.target_statistics import products_of
from recsys.models.target_statistics import targets_by_task
from recsys.models.unknown_ids import UnknownIds
from recsys.tasks import Task

# The stream that belongs to no task, where there are several.
SHARED = "shared"
# In front of an id feature's name, the input of what its replaced ids were. No
# feature has a slash in front.
_KNOWN = "/known/"


@keras.saving.register_keras_serializable(package="recsys")
class Ranker(MultiTaskModel):
    """The multi-task recommender: embeddings, a mixture, a head for each task.

    Each feature becomes a vector as its kind says (`recsys.features`): ids
    are embedded, numbers standardised. The vectors are concatenated, the
    mixture turns them into one vector a task, and each task's head turns its
    vector into a prediction.

    The model is built when it is constructed.

    Args:
        features: The features, fitted to the training split.
        tasks: Tasks with their kind, of `recsys.tasks`, or its name.
        mixture: `keras_moe.layers.MMoE` with one gate per task.
        embedding_dim: Integer, width of an id's embedding, or dict of feature
            to the width of its table. Defaults to 128.
        head_units: Integers, the hidden widths of a head. Defaults to `(256,)`.
        hash_feature: Id feature that the gates see, for gates that route ids;
            with `None` (default) they see what the experts see.
        unknown_rate: Float in `[0, 1)`, share of the ids that are treated as
            unknown while training. Defaults to 0.01.
        interaction: Layer of `recsys.models.interactions` from the list of
            the features' vectors to what the experts see; they are
            concatenated with `None` (default).
        scenario_model: Layer of `recsys.models.scenarios` that changes the
            features by scenario and makes the heads; `None` (default) for
            heads of the mixture's output alone.
        target_statistics: Id features of which a row also has statistics of
            the training labels, as numbers; see `TargetStatistics`. None by
            default.
        label_factors: Integer, numbers in each vector of these statistics,
            whose products a row has, too; 0 (default) for no vectors.
        random_intercepts: Boolean, whether training rows that are trained as
            of an unknown id have `RandomIntercepts`. Defaults to `False`.
        streams: Names of what the mixture takes, such as the tasks and
            "shared" for a `keras_moe.layers.STEM`. Each id then has an
            embedding for each of them, side by side in one table, and the
            experts see a dict. With none (default), there is one embedding per
            id, and the experts see one tensor.
        layers_of: A ranker with the same other arguments, but for the
            mixture, whose embeddings, layers of features and heads this one
            has, too; it has its own with `None` (default).
        build: Boolean, whether the constructor builds the model. A subclass
            with further layers passes `False` and builds after setting them:
            Keras accepts none in a built model. Defaults to `True`.
        **kwargs: `num_classes`, `constants`, `target_scales`,
            `calibrations` and `num_positions` of `MultiTaskModel`, `name`,
            `trainable`, `dtype`.

    Call arguments:
        inputs: Dict of feature to tensor `(batch,)`, as `encode` returns
            them.
        training: Boolean.

    Returns:
        Dict of task to float32 tensor, as `MultiTaskModel` returns it.

    Example:
    >>> from keras_moe.layers import MLPExperts, MMoE, SoftmaxGate
    >>> from recsys.features import Id, Number
    >>> people = pd.DataFrame({"user": [7, 9], "age": [31.0, float("nan")]})
    >>> ranker = Ranker(
    ...     {
    ...         "user": Id().fit([people["user"]]),
    ...         "age": Number().fit([people["age"]]),
    ...     },
    ...     {"watch": "binary"},
    ...     MMoE({"watch": SoftmaxGate(4)}, MLPExperts(4, 8)),
    ... )
    >>> tuple(ranker(ranker.encode(people))["watch"].shape)
    (2, 1)

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, supplement S1 (MovieLens architecture).
    """

    def __init__(
        self,
        features: Mapping[str, FittedFeature],
        tasks: Mapping[str, Declaration | Task],
        mixture: keras.layers.Layer,
        embedding_dim: int | Mapping[str, int] = 128,
        head_units: Sequence[int] = (256,),
        hash_feature: str | None = None,
        unknown_rate: float = 0.01,
        interaction: keras.layers.Layer | None = None,
        target_statistics: Sequence[str] = (),
        label_factors: int = 0,
        random_intercepts: bool = False,
        streams: Sequence[str] = (),
        scenario_model: ScenarioModel | None = None,
        layers_of: "Ranker | None" = None,
        build: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, mixture, head_units, **kwargs)
        self.fitted = dict(features)
        self.vocabularies = {
            name: feature.vocabulary
            for name, feature in self.fitted.items()
            if feature.vocabulary is not None and feature.of is None
        }
        self.embedding_dim = (
            embedding_dim
            if isinstance(embedding_dim, int)
            else dict(embedding_dim)
        )
        self.hash_feature = hash_feature
        self.unknown_rate = unknown_rate
        self.interaction = interaction
        self.target_statistics = list(target_statistics)
        self.label_factors = label_factors
        self.streams = list(streams)
        self.scenario_model = scenario_model
        if layers_of is None:
            self.unknown_ids = UnknownIds()
            self.embeddings = self._make_embeddings()
            self.feature_layers = self._make_feature_layers()
            self.statistics = self._make_statistics()
            self.random_intercepts = (
                self._make_intercepts() if random_intercepts else None
            )
            self.heads = (
                self._make_heads()
                if scenario_model is None
                else self._make_heads(scenario_model.make_head)
            )
        else:
            self.unknown_ids = layers_of.unknown_ids
            self.embeddings = layers_of.embeddings
            self.feature_layers = layers_of.feature_layers
            self.statistics = layers_of.statistics
            self.random_intercepts = layers_of.random_intercepts
            self.heads = layers_of.heads
        if build:
            self.build()

    def _make_embeddings(self) -> dict[str, IdEmbedding]:
        widths = self.embedding_dim
        if isinstance(widths, int):
            widths = table_widths(self.fitted, widths)
        return {
            name: IdEmbedding(
                feature.num_rows,
                widths[name] * self._embeddings_per_id,
                self.unknown_rate,
            )
            for name, feature in self.fitted.items()
            if feature.num_rows is not None
        }

    def _make_feature_layers(self) -> dict[str, keras.layers.Layer]:
        layers = {
            name: feature.create_layer()
            for name, feature in self.fitted.items()
        }
        return {
            name: layer for name, layer in layers.items() if layer is not None
        }

    def _make_statistics(self) -> TargetStatistics | None:
        if not self.target_statistics:
            return None
        num_rows: dict[str, int] = {}
        for name in self.target_statistics:
            rows = self.fitted[name].num_rows
            assert rows is not None, "an id has a table"
            num_rows[name] = rows
        targets = targets_by_task(self.tasks, self.num_classes)
        return TargetStatistics(
            num_rows,
            numbers_of(targets),
            products_of(targets, self.label_factors),
            self.label_factors,
        )

    def _make_intercepts(self) -> RandomIntercepts:
        return RandomIntercepts(
            {
                name: self.embeddings[name].output_dim
                for name, kind in self.features.items()
                if isinstance(kind, Id)
            },
            targets_by_task(self.tasks, self.num_classes),
        )

    def with_mixture(self, mixture: keras.layers.Layer) -> "Ranker":
        """Returns a ranker of this one's layers and another mixture.

        The two share their weights: tables may be large. It only ranks, also
        where this one is of a subclass.
        """
        return Ranker(
            self.fitted,
            self.tasks,
            mixture,
            self.embedding_dim,
            self.head_units,
            self.hash_feature,
            self.unknown_rate,
            self.interaction,
            self.target_statistics,
            self.label_factors,
            self.random_intercepts is not None,
            self.streams,
            self.scenario_model,
            layers_of=self,
            num_classes=self.num_classes,
            constants=self.constants,
            target_scales=self.target_scales,
            calibrations=self.calibrations,
        )

    def build(self, input_shape: Structure = None) -> None:
        """Builds every layer; the shapes follow from the arguments."""
        for embedding in self.embeddings.values():
            if not embedding.built:  # Another ranker's are.
                embedding.build((None,))
        for name, layer in self.feature_layers.items():
            if not layer.built:
                layer.build((None, None, self._table_dim(name)))
        shapes = [(None, width) for width in self._widths().values()]
        if self.statistics is not None:
            if not self.statistics.built:
                self.statistics.build()
            shapes.append((None, self.statistics.output_width))
        intercepts = self.random_intercepts
        if intercepts is not None and not intercepts.built:
            intercepts.build()
        seen: Any = (None, sum(width for _, width in shapes))
        condition = self._build_scenario_model(seen)
        if self.interaction is not None:
            if not self.interaction.built:
                self.interaction.build(shapes)
            seen = self.interaction.compute_output_shape(shapes)
        gate_inputs = None if self.hash_feature is None else (None,)
        self._build_towers(seen, gate_inputs, condition)

    def _build_scenario_model(self, features_shape: Any) -> Structure:
        """Builds the layer, if there is one; returns what its condition is."""
        layer = self.scenario_model
        if layer is None:
            return None
        shapes: list[Any] = [
            (None, self._table_dim(name)) for name in layer.embedded
        ]
        if not layer.built:
            layer.build(features_shape, (None,), shapes)
        return layer.condition_shape(features_shape, shapes)

    @property
    def ranking_variables(self) -> list[keras.Variable]:
        """The variables that predictions are computed from."""
        return list(self.variables)

    def mixture_inputs(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> tuple[Structure, Tensor | None]:
        taken = self.layer_inputs(inputs, training)
        return taken.features, taken.gate_inputs

    def layer_inputs(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> LayerInputs:
        if self.scenario_model is not None:
            inputs = self.scenario_model.with_unknown(inputs, training)
        inputs, are_unknown = self._with_unknown_ids(inputs, training)
        gate_inputs = (
            None if self.hash_feature is None else inputs[self.hash_feature]
        )
        rows = self._looked_up(inputs, training)
        intercepts: Mapping[str, Tensor] = {}
        if self.random_intercepts is not None and are_unknown:
            known = {n: rows.pop(_KNOWN + n) for n in are_unknown}
            intercepts = self.random_intercepts(known, are_unknown)
        features, condition = self._seen(inputs, rows, training)
        return LayerInputs(features, gate_inputs, condition, intercepts)

    def _with_unknown_ids(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Inputs of which some training rows have unknown ids, and which.

        Beside them stand the known ids, where they have intercepts.
        """
        known = inputs
        inputs, are_unknown = self.unknown_ids.replace(inputs, training)
        if self.statistics is not None:
            inputs = self.statistics.of_unknown(inputs, are_unknown)
        if self.random_intercepts is not None:
            beside = {_KNOWN + name: known[name] for name in are_unknown}
            inputs = {**inputs, **beside}
        return inputs, are_unknown

    def set_unknown_rates(self, rates: Mapping[str, float]) -> None:
        """Says how many training rows are trained as of an unknown id.

        Args:
            rates: By id feature, the share of rows; empty for none.
        """
        self.unknown_ids.rates = dict(rates)
        if self.random_intercepts is not None:
            self.random_intercepts.train_for(rates)

    @property
    def _embeddings_per_id(self) -> int:
        return max(len(self.streams), 1)

    @property
    def table_widths(self) -> dict[str, int]:
        """The width of an embedding in each table."""
        return {
            name: embedding.output_dim // self._embeddings_per_id
            for name, embedding in self.embeddings.items()
        }

    def _table_dim(self, name: str) -> int:
        """The width of the embedding that a feature takes; 0 without one."""
        return self.table_widths.get(self.fitted[name].of or name, 0)

    def _widths(self) -> dict[str, int]:
        """The width of each feature's vector."""
        return {
            name: feature.width(self._table_dim(name))
            for name, feature in self.fitted.items()
        }

    def _rows(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> dict[str, Tensor]:
        """The rows of tables for the features that are given, by feature."""
        rows: dict[str, Tensor] = {}
        small: dict[str, IdEmbedding] = {}
        small_ids: dict[str, Tensor] = {}
        for table, embedding in self.embeddings.items():
            ids = {
                name: feature.ids(inputs[name])
                for name, feature in self.fitted.items()
                if table in (name, feature.of) and name in inputs
            }
            if _KNOWN + table in inputs:
                ids[_KNOWN + table] = inputs[_KNOWN + table]
            if training and is_small(embedding, ids):
                small |= dict.fromkeys(ids, embedding)
                small_ids |= ids
            elif ids:
                rows |= look_up(embedding, ids, training)
        return rows | look_up_small(small, small_ids) if small else rows

    def _looked_up(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> dict[str, Tensor]:
        """The rows of tables that a step reads, each table once."""
        return self._rows(inputs, training)

    def _seen(
        self,
        inputs: Mapping[str, Tensor],
        rows: Mapping[str, Tensor],
        training: bool | None,
    ) -> tuple[Structure, Structure]:
        """What the experts see, by stream where there are several.

        Beside it the heads' condition, which there is with one stream alone.
        """
        if not self.streams:
            return self._combined(inputs, rows, training)
        seen = {}
        for stream in self.streams:
            own = self._embeddings_of(stream, rows)
            seen[stream], _ = self._combined(inputs, own, training)
        return seen, None

    def _embeddings_of(
        self, stream: str, rows: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """The embeddings of one stream, from the rows that were looked up."""
        if not self.streams:
            return rows
        place = self.streams.index(stream)
        width = {name: self._table_dim(name) for name in rows}
        return {
            # (..., streams D) to (..., D)
            name: vectors[..., place * width[name] : (place + 1) * width[name]]
            for name, vectors in rows.items()
        }

    def _combined(
        self,
        inputs: Mapping[str, Tensor],
        rows: Mapping[str, Tensor],
        training: bool | None,
    ) -> tuple[Tensor, Structure]:
        """What the experts see, from the rows, and the heads' condition."""
        parts = [
            feature.vectors(
                inputs[name],
                rows.get(name),
                self.feature_layers.get(name),
                None if feature.query is None else rows[feature.query],
            )
            for name, feature in self.fitted.items()
        ]
        if self.statistics is not None:
            parts.append(self.statistics(inputs))
        parts = [ops.cast(part, self.compute_dtype) for part in parts]
        parts, condition = self._by_scenario(inputs, rows, parts, training)
        if self.interaction is not None:
            return self.interaction(parts), condition
        return ops.concatenate(parts, axis=-1), condition

    def _by_scenario(
        self,
        inputs: Mapping[str, Tensor],
        rows: Mapping[str, Tensor],
        parts: list[Tensor],
        training: bool | None,
    ) -> tuple[list[Tensor], Structure]:
        """The vectors of features as the scenario changes them."""
        layer = self.scenario_model
        if layer is None:
            return parts, None
        features, condition = layer(
            ops.concatenate(parts, axis=-1),
            inputs[layer.feature],
            [ops.cast(rows[n], self.compute_dtype) for n in layer.embedded],
            training=training,
        )
        ends = np.cumsum([part.shape[-1] for part in parts])
        return ops.split(features, ends[:-1].tolist(), axis=-1), condition

    def _parse(self, table: pd.DataFrame) -> pd.DataFrame:
        columns = list(table.columns)
        labels = [*self.tasks, *self.columns(self.no_predictions())]
        missing = left_out(
            columns, list(self.fitted), "`x`", labels, stacklevel=3
        )
        return parse(with_missing(table, missing), self.features, "`x`")

    def encode(self, split: pd.DataFrame) -> dict[str, np.ndarray]:
        """Returns the model's inputs for a table of features.

        Args:
            split: A column per feature as `recsys.data.Dataset` holds it;
                other columns are ignored.

        Returns:
            Dict of feature to int32 or float32 array `(rows, ...)`.
        """
        return {
            name: feature.encode(split[name])
            for name, feature in self.fitted.items()
        }

    def check_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        for name, feature in self.fitted.items():
            feature.check_encoded(name, inputs[name])

    @property
    def features(self) -> dict[str, Feature]:
        return {name: feature.kind for name, feature in self.fitted.items()}

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "features": {
                name: {
                    "declaration": feature.kind.declaration,
                    "state": feature.get_state(),
                }
                for name, feature in self.fitted.items()
            },
            "embedding_dim": self.embedding_dim,
            "hash_feature": self.hash_feature,
            "unknown_rate": self.unknown_rate,
            "target_statistics": self.target_statistics,
            "label_factors": self.label_factors,
            "random_intercepts": self.random_intercepts is not None,
            "streams": self.streams,
            "interaction": keras.saving.serialize_keras_object(
                self.interaction
            ),
            "scenario_model": keras.saving.serialize_keras_object(
                self.scenario_model
            ),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> Self:
        kinds = {
            name: declared(held["declaration"], FEATURES, "'features'", name)
            for name, held in config["features"].items()
        }
        features: dict[str, FittedFeature] = {}
        for name in sharing_last(kinds):
            state = config["features"][name]["state"]
            features[name] = kinds[name].restore(state, features)
        restore = keras.saving.deserialize_keras_object
        return cls(
            **{
                **config,
                "features": {name: features[name] for name in kinds},
                "mixture": restore(config["mixture"]),
                "interaction": restore(config["interaction"]),
                # Earlier files have none.
                "scenario_model": restore(config.get("scenario_model")),
            }
        )
