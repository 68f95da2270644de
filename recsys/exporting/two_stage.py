from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras import ops

from recsys.errors import ExportError
from recsys.exporting.input_names import input_names
from recsys.exporting.signature import Input
from recsys.exporting.trial_rows import drawn_rows
from recsys.exporting.two_stage_model import ITEM
from recsys.exporting.two_stage_model import SCORE
from recsys.exporting.two_stage_model import TwoStageModel
from recsys.features.feature import FittedFeature
from recsys.files.json_files import JsonObject
from recsys.models.compact_rows import FLOAT32
from recsys.models.two_tower import TwoTower
from recsys.retrieval.formula import Formula
from recsys.retrieval.rerank import DIVERSITY
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import checksum
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import CANDIDATES
from recsys.serving.two_stage_runner import INDEX_FILE
from recsys.serving.two_stage_runner import SEEN

if TYPE_CHECKING:
    pass

RECALL = 0.99  # Of an index of faiss, unless another one is asked for.
_QUERIES = 256  # To measure it with.


@dataclass(frozen=True, eq=False)
class TwoStage:
    """A model that retrieves items and ranks them, in one call.

    A SavedModel, by its signature `serving_default`, or an ONNX file takes the
    features of a query by name, as `recsys.exporting.saved_model` does, and as
    `"seen"` the ids of items that are not to be recommended, `(batch, any)`:
    `""`, or -2**63 among integers, is behind the end of a short list, and an
    unknown id excludes nothing. An input may be left out: a feature is missing
    then, and nothing was seen.

    It returns `(batch, top)`, the best first, or in the order of `rerank`:
    `"item"`, the ids; `"score"`, the formula's value; each task's predictions
    by name, `<task>_0`, `<task>_1`, ... for the classes of a multiclass task.
    Where fewer items are left than are asked for, the id is `""` or -2**63,
    and the score the lowest of float32; an item whose score is no finite
    float32 comes with that score, too. With `expert_weights` there is
    `"<task>/experts"`, `(batch, top, n)`, as a ranker has it.

    `assets.extra` of a SavedModel holds requests that a server warms up with.

    What goes with an index of faiss has two more signatures, those that
    `recsys.serving.two_stage_runner` searches between, and searches the whole
    catalogue by itself.

    Those of `LEGACY_INDEXES` are TensorFlow Recommenders', which has to be
    imported where `TF_USE_LEGACY_KERAS` was 1 before TensorFlow was.

    Args:
        ranker: A trained ranker with retrieval, under TensorFlow.
        formula: What items are ranked by.
        top: How many items are returned.
        candidates: How many are ranked.
        index: One of `INDEXES`, of which all but `"brute-force"` and `"tfrs"`
            are approximate.
        tables: How brute force holds the items' vectors, one of
            `recsys.models.compact_rows.TABLE_TYPES`; those of the ranker's
            tables are up to the ranker.
        rerank: What makes the items differ from each other, a name among
            `recsys.retrieval.rerank.RERANKERS`; the score alone decides
            unless given.
        diversity: How much `rerank` counts, from 0 to 1.
        expert_weights: Whether the weights of the experts are outputs, too.

    Raises:
        ExportError: A feature, or a prediction, has the name of another input
            or output.
    """

    ranker: TwoTower
    formula: Formula
    top: int
    candidates: int
    index: str = BRUTE_FORCE
    tables: str = FLOAT32
    rerank: str | None = None
    diversity: float = DIVERSITY
    expert_weights: bool = False

    def __post_init__(self) -> None:
        if self.expert_weights and not self.ranker.has_trained_tasks:
            raise ExportError(
                "`expert_weights` must be False for a model whose tasks were "
                "not trained. Received: expert_weights=True"
            )
        inputs = (SEEN, CANDIDATES) if self.index in FAISS_INDEXES else (SEEN,)
        outputs = self.ranker.columns(self.ranker.no_predictions())
        for what, names, taken in (
            ("features", self.ranker.query_names, inputs),
            ("tasks", [*outputs], (ITEM, SCORE)),
        ):
            if both := set(names) & set(taken):
                raise ExportError(
                    f"The two stages must have {what} with names other than "
                    f"{', '.join(taken)}. Received: {sorted(both)}"
                )

    @property
    def inputs(self) -> dict[str, str]:
        """Names of inputs by feature of the query."""
        names = input_names([*self.ranker.query_names, SEEN])
        return {name: names[name] for name in self.ranker.query_names}

    @property
    def features(self) -> dict[str, FittedFeature]:
        """Features of the query by the names of their inputs."""
        fitted = self.ranker.fitted
        return {input: fitted[name] for name, input in self.inputs.items()}

    @property
    def seen(self) -> FittedFeature:
        """The feature that the ids of `"seen"` are of."""
        return self.ranker.fitted[self.ranker.retrieval.item]

    def signature(self) -> dict[str, Input]:
        """Returns all inputs by name: features are missing by default."""
        inputs = {
            input: Input.of(feature) for input, feature in self.features.items()
        }
        # Nothing was seen: a list of what is behind the end of one.
        missing = self.seen.raw_missing()[:, None]
        nothing = Input(self.seen.raw_dtype, (None, None), missing)
        return inputs | {SEEN: nothing}

    def create_model(self) -> TwoStageModel:
        """Returns what computes the outputs, under TensorFlow.

        Raises:
            ExportError: The index cannot be made here.
        """
        return TwoStageModel(
            self.ranker,
            self.formula,
            self.top,
            self.candidates,
            self.index,
            self.tables,
            self.rerank,
            self.diversity,
            expert_weights=self.expert_weights,
        )


def write_index(model: TwoStage, recall: float, folder: Path) -> JsonObject:
    """Writes an index of faiss beside a model.

    Args:
        model: What was written, with an index of `FAISS_INDEXES`.
        recall: The share of the best candidates that it has to find, on
            average over queries with known, unknown and missing values.
        folder: Where.

    Returns:
        `"found"`, the share that it finds, and `"sha256"` of the file.

    Raises:
        ExportError: It does not find that many.
    """
    ranker = model.ranker
    rows = drawn_rows(ranker, _QUERIES)
    queries = ops.convert_to_numpy(
        ranker.query_vectors(
            {
                name: ranker.fitted[name].encode(rows[name])
                for name in ranker.query_names
            }
        )
    )
    vectors = ranker.retrieval.vectors
    index = FAISS_INDEXES[model.index].build(vectors)
    count = min(model.candidates, len(vectors))
    share = index.tune(vectors, queries, count, recall)
    if share < recall:
        raise ExportError(
            f"The index {model.index} must find a share of {recall:g} of the "
            f"best {count} items (`recall`). Received: {share:.4f}"
        )
    index.write(folder / INDEX_FILE)
    return {"found": share, "sha256": checksum(folder / INDEX_FILE)}
