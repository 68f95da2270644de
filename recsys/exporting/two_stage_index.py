from pathlib import Path

from keras import ops

from recsys.errors import ExportError
from recsys.exporting.sample import drawn_rows
from recsys.exporting.two_stage import TwoStage
from recsys.files.json_files import JsonObject
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import checksum
from recsys.serving.two_stage_runner import INDEX_FILE

RECALL = 0.99
_QUERIES = 256


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
