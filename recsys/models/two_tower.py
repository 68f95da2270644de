from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any
from typing import Literal
from typing import Self

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.columns.kind import Declaration
from recsys.features.feature import FittedFeature
from recsys.models.ranker import SHARED
from recsys.models.ranker import Ranker
from recsys.retrieval.retrieval import RETRIEVAL_LOSS
from recsys.retrieval.retrieval import ROW_ITEMS
from recsys.retrieval.retrieval import ROW_QUERIES
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.retrieval.retrieval import Retrieval
from recsys.retrieval.user_features import looked_up
from recsys.tasks import Task

Part = Literal["tasks", "towers"]


@keras.saving.register_keras_serializable(package="recsys")
class TwoTower(Ranker):
    """A ranker with retrieval, which finds the items that are worth ranking.

    A query tower and an item tower see the vectors of the features that the
    ranker's tables have; items are retrieved by the dot product of their
    vectors. Both are trained beside the tasks: in a training step with weights
    of rows for retrieval among the inputs, the model adds the loss of the
    retrieval; or one after the other, within `only`. A sequence tower, whose
    `history` is a feature, is trained before the tasks and adds none.

    Args:
        features: As in `Ranker`.
        tasks: As in `Ranker`.
        mixture: As in `Ranker`.
        retrieval: `recsys.retrieval.retrieval.Retrieval`.
        **kwargs: The other arguments of `Ranker`, but for `build`.

    Attributes:
        part: What training steps are of alone, `"tasks"` or `"towers"`; `None`
            for both.

    Call arguments:
        inputs: Dict of feature to tensor `(batch,)`, as `encode` returns
            them; where retrieval is trained, with the float32 weights of rows
            `(batch,)` under `recsys.retrieval.retrieval.ROW_WEIGHTS`.
        training: Boolean.

    Returns:
        Dict of task to float32 tensor, as `Ranker` returns it.

    References:
        Yi et al. Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
        Recommendations. RecSys 2019 (two towers, in-batch softmax).
    """

    def __init__(
        self,
        features: Mapping[str, FittedFeature],
        tasks: Mapping[str, Declaration | Task],
        mixture: keras.layers.Layer,
        retrieval: Retrieval,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, tasks, mixture, build=False, **kwargs)
        self.retrieval = retrieval
        self.part: Part | None = None
        self.build()

    def build(self, input_shape: Structure = None) -> None:
        """Builds every layer; the shapes follow from the arguments."""
        super().build(input_shape)
        if self.retrieval.built:
            return
        widths = self._widths()
        of_queries, of_items = (
            sum(widths[name] for name in self._seen_by_tower(names))
            for names in (self.query_names, self.retrieval.item_names)
        )
        self.retrieval.build((None, of_queries), (None, of_items))

    @property
    def has_trained_tasks(self) -> bool:
        return not self.retrieval.alone

    @property
    def ranking_variables(self) -> list[keras.Variable]:
        """All variables but those of the retrieval."""
        of_retrieval = {id(variable) for variable in self.retrieval.variables}
        return [
            variable
            for variable in self.variables
            if id(variable) not in of_retrieval
        ]

    @contextmanager
    def only(self, part: Part) -> Iterator[None]:
        """Within it, training steps change one part and nothing else.

        Compile the model there: its optimizer has the variables of that part.
        The embeddings of features that towers see are the tasks', unless the
        tasks are not trained at all.
        Steps of the towers predict constants, for the loss of the tasks to be
        left out, and leave alone what gates note in a step, too.

        Args:
            part: `"tasks"` or `"towers"`.
        """
        of_towers = {id(variable) for variable in self._variables_of_towers()}
        frozen = [
            variable
            for variable in self.trainable_variables
            if (id(variable) in of_towers) == (part == "tasks")
        ]
        for variable in frozen:
            variable.trainable = False
        self.part = part
        try:
            yield
        finally:
            self.part = None
            for variable in frozen:
                variable.trainable = True

    def _variables_of_towers(self) -> list[keras.Variable]:
        variables = list(self.retrieval.variables)
        if self.has_trained_tasks:
            return variables
        for name in self._seen_by_tower(list(self.fitted)):
            table = self.fitted[name].of or name
            for layers in (self.embeddings, self.feature_layers):
                if table in layers:
                    variables += layers[table].variables
        return variables

    @property
    def query_names(self) -> list[str]:
        """The features that are not of the item."""
        of_items = self.retrieval.item_names
        return [name for name in self.fitted if name not in of_items]

    def query_vectors(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Returns what items are retrieved with, `(batch, dim)`.

        Args:
            inputs: By feature of `query_names`, as `encode` returns them.
        """
        if self.retrieval.history is not None:
            return self.retrieval.query_tower(
                inputs[self.retrieval.history],
                {
                    name: looked_up(self.fitted[name], inputs[name])
                    for name in self.retrieval.user_features
                },
            )
        return self.retrieval.query_vectors(
            self._tower_inputs(inputs, self.query_names),
            self._query_ids(inputs),
        )

    def item_vectors(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Returns what stands for items in the index, `(batch, dim)`.

        Args:
            inputs: By feature of the item, as `encode` returns them.
        """
        if self.retrieval.history is not None:
            names = self.retrieval.item_names
            return self.retrieval.item_tower({n: inputs[n] for n in names})
        return self.retrieval.item_vectors(
            self._tower_inputs(inputs, self.retrieval.item_names),
            inputs[self.retrieval.item],
        )

    def _seen_by_tower(self, names: Sequence[str]) -> list[str]:
        """The features of one side, without ids that have free vectors."""
        return [name for name in names if name not in self.retrieval.id_vectors]

    def _query_ids(self, inputs: Mapping[str, Tensor]) -> Tensor | None:
        """The ids of the query that have free vectors, if there are some."""
        name = self.retrieval.query_id
        return None if name is None else inputs[name]

    def _tower_inputs(
        self, inputs: Mapping[str, Tensor], names: Sequence[str]
    ) -> Tensor | None:
        names = self._seen_by_tower(names)
        # An ONNX graph has several tensors for some features.
        inputs = {
            name: keras.tree.map_structure(ops.convert_to_tensor, inputs[name])
            for name in names
        }
        return self._tower_vectors(inputs, self._rows(inputs, False), names)

    def _tower_vectors(
        self,
        inputs: Mapping[str, Tensor],
        rows: Mapping[str, Tensor],
        names: Sequence[str],
    ) -> Tensor | None:
        """Input of a tower: one vector of the features of one side.

        The other side cannot be asked about: there is no attention to it.
        `None` where there are no features. Of several streams, towers have
        the embeddings of the shared one.
        """
        rows = self._embeddings_of(SHARED, rows)
        parts = [
            self.fitted[name].vectors_alone(
                inputs[name], rows.get(name), self.feature_layers.get(name)
            )
            for name in names
        ]
        if not parts:
            return None
        parts = [ops.cast(part, self.compute_dtype) for part in parts]
        return ops.concatenate(parts, axis=-1)

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        budget: float | Tensor | None = None,
    ) -> dict[str, Tensor]:
        if ROW_ITEMS in inputs:
            self._add_loss_of_pairs(inputs)
            return self._constants(inputs[str(self.retrieval.query_id)])
        if not training or self.part != "towers":
            return super().call(inputs, training, budget)
        self._add_retrieval_loss(inputs, self._rows(inputs, False))
        return self._constants(inputs[self.retrieval.item])

    def _constants(self, ids: Tensor) -> dict[str, Tensor]:
        """Predictions for so many rows of which no task is trained."""
        batch = ops.shape(ids)[0]
        # Probabilities, so that the loss of no kind of task is infinite.
        counts = {task: self.num_classes.get(task, 1) for task in self.tasks}
        return {
            task: ops.full((batch, count), 1 / (count + 1))
            for task, count in counts.items()
        }

    def _looked_up(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> dict[str, Tensor]:
        rows = super()._looked_up(inputs, training)
        beside_tasks = self.retrieval.history is None and self.part is None
        if training and beside_tasks and ROW_WEIGHTS in inputs:
            self._add_retrieval_loss(inputs, rows)
        return rows

    def _add_retrieval_loss(
        self, inputs: Mapping[str, Tensor], rows: Mapping[str, Tensor]
    ) -> None:
        queries, items = (
            self._tower_vectors(inputs, rows, self._seen_by_tower(names))
            for names in (self.query_names, self.retrieval.item_names)
        )
        drawn = self.retrieval.draw()
        loss = self.retrieval(
            queries,
            items,
            inputs[self.retrieval.item],
            inputs[ROW_WEIGHTS],
            self._query_ids(inputs),
            drawn,
            None if drawn is None else self._seen_of_items(drawn),
        )
        self.note_loss(RETRIEVAL_LOSS, loss)

    def _add_loss_of_pairs(self, inputs: Mapping[str, Tensor]) -> None:
        """Adds the loss of users with all their rows."""
        user = self.retrieval.query_id
        assert user is not None, "whose rows they are"
        of_all = ops.arange(1, self.retrieval.num_items + 1, dtype="int32")
        loss = self.retrieval.loss_of_pairs(
            self._tower_inputs(inputs, self.query_names),
            inputs[user],
            (inputs[ROW_QUERIES], inputs[ROW_ITEMS], inputs[ROW_WEIGHTS]),
            self._seen_of_items(of_all),
        )
        self.note_loss(RETRIEVAL_LOSS, loss)

    def _seen_of_items(self, numbers: Tensor) -> Tensor | None:
        """Input of the item tower for items of the catalogue."""
        inputs = self.retrieval.inputs_of(numbers)
        return self._tower_inputs(inputs, self.retrieval.item_names)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "retrieval": keras.saving.serialize_keras_object(self.retrieval),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> Self:
        retrieval = keras.saving.deserialize_keras_object(config["retrieval"])
        return super().from_config({**config, "retrieval": retrieval})
