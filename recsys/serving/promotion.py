"""The verdict of `recsys promote` beside a model, and the model's checksum."""

import hashlib
from pathlib import Path

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json

# In a SavedModel, `assets.extra` is for what TensorFlow does not read.
PROMOTION_FILE = Path("assets.extra", "promotion.json")
YES, NO = "yes", "no"
_AT_ONCE = 2**20  # Bytes.


class NotPromotedError(FileError):
    """A model without a verdict yet, or that was refused: no fault of it."""


def model_checksum(folder: Path) -> str:
    """Returns the SHA-256 of all files of a model, names included.

    Args:
        folder: Folder of the model; its `PROMOTION_FILE` does not count.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if not file.is_file() or name == PROMOTION_FILE:
            continue
        digest.update(f"{name.as_posix()}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            while part := content.read(_AT_ONCE):
                digest.update(part)
    return digest.hexdigest()


def write_promotion(folder: Path, verdict: str, details: JsonObject) -> None:
    """Writes the verdict on a model beside it.

    Args:
        folder: Folder of the model.
        verdict: `YES` or `NO`.
        details: What the verdict is about.
    """
    (folder / PROMOTION_FILE).parent.mkdir(exist_ok=True)
    content = {"verdict": verdict, "checksum": model_checksum(folder)}
    write_json(folder / PROMOTION_FILE, {**content, **details})


def check_promoted(folder: Path) -> None:
    """Checks that a model was accepted, and has not changed since.

    Args:
        folder: Folder of the model.

    Raises:
        NotPromotedError: It has no verdict yet, or was refused.
        FileError: It has changed since, or the verdict cannot be read.
    """
    file = folder / PROMOTION_FILE
    expected = f"the verdict {YES!r} of `recsys promote`, for --promoted-only"
    if not file.is_file():
        raise NotPromotedError.at(file, expected, "no such file")
    with reading(file, expected):
        content = dict(read_json(file))
        verdict, checksum = content["verdict"], content["checksum"]
    if verdict != YES:
        raise NotPromotedError.at(file, expected, repr(verdict))
    if checksum != model_checksum(folder):
        raise FileError.at(
            file, "the checksum of the model", "that of other files"
        )
