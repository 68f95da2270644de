from importlib import import_module
from pathlib import Path

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.serving.faiss_index import FaissIndex
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import read_index
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Runner

BRUTE_FORCE = "brute-force"
# Of TensorFlow Recommenders, which needs the Keras before Keras 3.
TFRS, SCANN = "tfrs", "scann"
# What `recsys export --two-stage` has written beside the model.
TWO_STAGE_FILE = Path("assets.extra", "two_stage.json")
INDEX_FILE = Path("assets.extra", "items.faiss")

# Two signatures that do what `serving_default` does, with a search between.
QUERY, VECTOR, SEEN = "query", "vector", "seen"
RANK, CANDIDATES = "rank", "candidates"


class TwoStageRunner:
    """Retrieves items and ranks them, with an index of faiss between.

    `serving_default` takes and returns what that of the model does, which
    searches the whole catalogue. Other signatures are the model's own.

    Args:
        model: A SavedModel with the signatures `query`, from a query's features
            and the items that it has seen to its `vector` and the numbers of
            the `seen`, and `rank`, from the features and the numbers of
            `candidates` to the outputs of `serving_default`.
        index: Where the candidates are looked for.
    """

    def __init__(self, model: Runner, index: FaissIndex) -> None:
        self.signatures = model.signatures
        self._model = model
        self._index = index
        self._rank = model.signatures[RANK].inputs
        candidates = self._rank[CANDIDATES].default
        assert candidates is not None
        self._count = candidates.shape[1]

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        if signature in (QUERY, RANK):
            return self._model.run(signature, inputs)
        query = self._model.run(QUERY, inputs)
        candidates = self._index.unseen(query[VECTOR], query[SEEN], self._count)
        features = {
            name: values
            for name, values in inputs.items()
            if name in self._rank
        }
        return self._model.run(RANK, {**features, CANDIDATES: candidates})


def import_operations(folder: Path) -> None:
    """Imports what TensorFlow needs to load a model with an index of ScaNN.

    Args:
        folder: Folder of a model of any kind.

    Raises:
        FileError: The index is one of ScaNN, which cannot be imported.
    """
    exported = _exported_with(folder)
    if exported is None or exported[0] != SCANN:
        return
    try:
        import_module(SCANN)
    except Exception as error:  # Of whatever kind: of a library that is broken.
        raise FileError.at(
            folder,
            "the package scann, which has the operations of its index, in a "
            "release for the installed TensorFlow",
            f"{type(error).__name__}: {error}",
        ) from error


def with_index(model: Runner, folder: Path, index: str | None) -> Runner:
    """Returns a model that searches with an index.

    Args:
        model: The SavedModel in a folder.
        folder: Its folder, with the index.
        index: `"brute-force"`, a key of `FAISS_INDEXES`, or `None` for
            whatever the model was exported with.

    Raises:
        FileError: It was exported without that index, or the index is broken
            or cannot be read here.
    """
    described = _exported_with(folder)
    if described is None:
        if index is None:
            return model
        raise FileError.at(
            folder,
            f"a model of `recsys export --two-stage`, to be served with the "
            f"index {index}",
            "one without an index",
        )
    exported, sha256 = described
    wanted = exported if index is None else index
    if wanted == (BRUTE_FORCE if exported in FAISS_INDEXES else exported):
        return model
    if wanted != exported:
        raise FileError.at(
            folder,
            f"a model of `recsys export --two-stage --index {wanted}`",
            f"one of `--index {exported}`",
        )
    searcher = read_index(folder / INDEX_FILE, exported, sha256)
    return TwoStageRunner(model, searcher)


def _exported_with(folder: Path) -> tuple[str, str] | None:
    """The index of two stages and the checksum of its file, if it has one."""
    file = folder / TWO_STAGE_FILE
    if not file.is_file():
        return None
    with reading(file, "what `recsys export --two-stage` has written"):
        content = read_json(file)
        return str(content["index"]), str(content.get("sha256"))
