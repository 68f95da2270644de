from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pandas as pd
from keras import ops

from recsys.data import DataError
from recsys.data.columns import parse
from recsys.features import FEATURES
from recsys.models.id_embedding import IdEmbedding
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.vocabulary import Vocabulary


@keras.saving.register_keras_serializable(package="recsys")
class Ranker(MultiTaskModel):
    """The multi-task recommender: embeddings, a mixture, a head for each task.

    Each id is embedded, numbers are standardised, and all of it concatenated;
    the mixture turns that into one vector a task, and each task's head turns
    its vector into a prediction. A missing number counts as the mean, a
    missing id as an unknown one.

    The model is built when it is constructed.

    Args:
        vocabularies: Id features with the ids that the model knows.
        numbers: Number features with their mean and variance.
        tasks: Tasks with their type, `"binary"` or `"regression"`.
        mixture: `keras_moe.layers.MMoE` with one gate per task.
        embedding_dim: Integer, width of an id's embedding. Defaults to 128.
        head_units: Integers, the hidden widths of a head. Defaults to `(256,)`.
        hash_feature: Id feature that the gates see, for gates that route ids;
            with `None` (default) they see what the experts see.
        unknown_rate: Float in `[0, 1)`, share of the ids that are treated as
            unknown while training. Defaults to 0.01.
        **kwargs: `constants` and `target_scales` of `MultiTaskModel`, `name`,
            `trainable`, `dtype`.

    Call arguments:
        inputs: Dict of feature to tensor `(batch,)`: int32 ids and float32
            numbers, as `encode` returns them.
        training: Boolean.

    Returns:
        Dict of task to float32 tensor `(batch, 1)`: the probability of a 1
        for a binary task, a number in the label's unit for a regression task.

    Example:
    >>> from keras_moe.layers import MLPExperts, MMoE, SoftmaxGate
    >>> people = pd.DataFrame({"user": [7, 9], "age": [31.0, float("nan")]})
    >>> ranker = Ranker(
    ...     {"user": Vocabulary.of(people["user"])},
    ...     {"age": (31.0, 0.0)},
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
        vocabularies: Mapping[str, Vocabulary],
        numbers: Mapping[str, Sequence[float]],
        tasks: Mapping[str, str],
        mixture: keras.layers.Layer,
        embedding_dim: int = 128,
        head_units: Sequence[int] = (256,),
        hash_feature: str | None = None,
        unknown_rate: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, mixture, head_units, **kwargs)
        self.vocabularies = dict(vocabularies)
        self.numbers = {name: list(pair) for name, pair in numbers.items()}
        self.embedding_dim = embedding_dim
        self.hash_feature = hash_feature
        self.unknown_rate = unknown_rate
        self.embeddings = {
            name: IdEmbedding(known.size + 1, embedding_dim, unknown_rate)
            for name, known in self.vocabularies.items()
        }
        if self.numbers:
            means, variances = zip(*self.numbers.values(), strict=True)
            self.normalization = keras.layers.Normalization(
                mean=list(means), variance=list(variances)
            )
        self.heads = self._make_heads()
        self.build()

    def with_mixture(self, mixture: keras.layers.Layer) -> "Ranker":
        """Returns a ranker with this one's weights and another mixture."""
        other = Ranker(
            self.vocabularies,
            self.numbers,
            self.tasks,
            mixture,
            self.embedding_dim,
            self.head_units,
            self.hash_feature,
            self.unknown_rate,
            constants=self.constants,
            target_scales=self.target_scales,
        )
        for mine, theirs in (
            (self.embeddings, other.embeddings),
            (self.heads, other.heads),
        ):
            for name, layer in mine.items():
                theirs[name].set_weights(layer.get_weights())
        return other

    def build(self, input_shape: Any = None) -> None:
        """Builds every layer; the shapes follow from the arguments."""
        width = len(self.numbers)
        for embedding in self.embeddings.values():
            embedding.build((None,))
            width += self.embedding_dim
        if self.numbers:
            self.normalization.build((None, len(self.numbers)))
        gate_inputs = None if self.hash_feature is None else (None,)
        self._build_towers((None, width), gate_inputs)

    def mixture_inputs(
        self, inputs: Any, training: bool | None
    ) -> tuple[Any, Any]:
        gate_inputs = (
            None if self.hash_feature is None else inputs[self.hash_feature]
        )
        return self._features(inputs, training), gate_inputs

    def _features(self, inputs: Any, training: bool | None) -> Any:
        parts = [
            embedding(inputs[name], training=training)
            for name, embedding in self.embeddings.items()
        ]
        if self.numbers:
            numbers = self.normalization(
                ops.stack([inputs[name] for name in self.numbers], axis=-1)
            )
            parts.append(ops.where(ops.isnan(numbers), 0.0, numbers))
        return ops.concatenate(parts, axis=-1)

    def _parse(self, table: pd.DataFrame) -> pd.DataFrame:
        return parse(
            table,
            {name: FEATURES[kind]() for name, kind in self.features.items()},
            "`x`",
        )

    def encode(self, split: pd.DataFrame) -> dict[str, Any]:
        """Returns the model's inputs for a table of features.

        Args:
            split: A column per feature, ids and numbers as
                `recsys.data.Dataset` holds them; other columns are ignored.

        Returns:
            Dict of feature to int32 or float32 array `(rows,)`.
        """
        ids = {
            name: vocabulary.encode(split[name])
            for name, vocabulary in self.vocabularies.items()
        }
        numbers = {
            name: split[name].to_numpy(np.float32) for name in self.numbers
        }
        return ids | numbers

    def check_inputs(self, inputs: Mapping[str, Any]) -> None:
        for name, values in inputs.items():
            if values.ndim != 1:
                raise DataError.at(
                    f"feature {name!r}", "one value per row", f"{values.shape}"
                )
        for name, vocabulary in self.vocabularies.items():
            ids, most = inputs[name], vocabulary.size
            if ids.dtype.kind == "f" or not 0 <= ids.min() <= ids.max() <= most:
                raise DataError.at(
                    f"feature {name!r}",
                    f"numbers of ids, from 0 to {most}",
                    f"{ids.dtype} from {ids.min()} to {ids.max()}",
                )

    @property
    def features(self) -> dict[str, str]:
        return dict.fromkeys(self.vocabularies, "id") | dict.fromkeys(
            self.numbers, "number"
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabularies": {
                name: keras.saving.serialize_keras_object(vocabulary)
                for name, vocabulary in self.vocabularies.items()
            },
            "numbers": self.numbers,
            "embedding_dim": self.embedding_dim,
            "hash_feature": self.hash_feature,
            "unknown_rate": self.unknown_rate,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "Ranker":
        restore = keras.saving.deserialize_keras_object
        return cls(
            **{
                **config,
                "vocabularies": {
                    name: restore(vocabulary)
                    for name, vocabulary in config["vocabularies"].items()
                },
                "mixture": restore(config["mixture"]),
            }
        )
