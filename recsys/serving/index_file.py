import hashlib
from pathlib import Path

from recsys.errors import FileError
from recsys.errors.missing_package import what_to_install
from recsys.errors.reading import reading
from recsys.serving.faiss_index import FaissIndex
from recsys.serving.hnsw_index import HnswIndex
from recsys.serving.import_faiss import import_faiss
from recsys.serving.ivf_index import IvfIndex

FAISS_INDEXES: dict[str, type[FaissIndex]] = {
    "hnsw": HnswIndex,
    "ivf": IvfIndex,
}


def checksum(file: Path) -> str:
    """Returns the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def read_index(file: Path, kind: str, sha256: str) -> FaissIndex:
    """Reads an index.

    faiss believes what a file says: whatever is not the file that was written
    is refused before, such as one that is cut off, or one of other items.

    Args:
        file: What `FaissIndex.write` has written.
        kind: Which of `FAISS_INDEXES` it holds.
        sha256: Its checksum.

    Raises:
        FileError: It is another file, or faiss is not there.
    """
    with reading(file, "an index of faiss"):
        if not file.is_file():
            raise FileError.at(file, "an index of faiss", "no such file")
        if (received := checksum(file)) != sha256:
            raise FileError.at(
                file,
                f"the index exported with the model, with SHA-256 {sha256}",
                f"one with {received}: it is broken, or of another model",
            )
        try:
            faiss = import_faiss()
        except ModuleNotFoundError as error:
            problem = what_to_install(error)
            raise FileError(
                f"{file}: {problem} Or serve it with --index brute-force."
            ) from error
        return FAISS_INDEXES[kind](faiss.read_index(str(file)))
