"""Lengths of lists that a model looks at, written by its export."""

from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import replace
from pathlib import Path

from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.serving.tensor_spec import ListLength
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import with_inputs

# Of the folder of a model. In a SavedModel, `assets.extra` is for what
# TensorFlow does not read.
LISTS_FILE = Path("assets.extra", "lists.json")


def write_list_lengths(
    folder: Path, lengths: Mapping[str, ListLength | None]
) -> None:
    """Writes `LISTS_FILE`, unless the model looks at all of all its lists.

    Args:
        folder: Folder of the model.
        lengths: By input, how much of a list counts, `None` for all of it.
    """
    known = {name: asdict(length) for name, length in lengths.items() if length}
    if known:
        (folder / LISTS_FILE).parent.mkdir(exist_ok=True)
        write_json(folder / LISTS_FILE, known)


def with_list_lengths(
    signatures: Mapping[str, Signature], folder: Path
) -> dict[str, Signature]:
    """Returns signatures whose inputs know how much of a list counts.

    Args:
        signatures: Signatures of the model in a folder.
        folder: The folder; `LISTS_FILE` need not be there.

    Raises:
        FileError: The file is broken.
    """
    lengths = _read(folder / LISTS_FILE)
    return with_inputs(
        signatures, lambda key, spec: replace(spec, length=lengths.get(key))
    )


def _read(file: Path) -> dict[str, ListLength]:
    if not file.is_file():
        return {}
    with reading(file, "the lengths of lists that `recsys export` has written"):
        return {
            str(name): ListLength(
                _count(length["most"]), length["keeps_last"] is True
            )
            for name, length in read_json(file).items()
        }


def _count(most: object) -> int:
    if type(most) is not int or most < 1:
        raise ValueError(most)
    return most
