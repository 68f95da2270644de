import json
from collections.abc import Iterator
from pathlib import Path

from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.reading import reading


def read_codeparrot(folder: Path, most_files: int | None = None) -> list[str]:
    """Reads the Python files of CodeParrot's data set.

    Args:
        folder: Folder of its parts, `*.json.gz` (or `*.json`): a JSON object
            in each line, whose "content" is the text of a Python file.
        most_files: Optional integer: no more than so many texts.

    Returns:
        The texts, in the order of the parts.

    Raises:
        DataError: A part is missing or broken.

    References:
        Tunstall et al., Natural Language Processing with Transformers,
        O'Reilly 2022, chapter 10.
    """
    if not folder.is_dir():
        raise DataError.at(folder, "the folder of the download", "no folder")
    parts = sorted([*folder.glob("*.json.gz"), *folder.glob("*.json")])
    if not parts:
        raise DataError.at(folder, "parts *.json.gz", "none of them")
    texts: list[str] = []
    for part in parts:
        for text in _texts(part):
            if most_files is not None and len(texts) >= most_files:
                return texts
            texts.append(text)
    return texts


def _texts(part: Path) -> Iterator[str]:
    packed = read_packed(part)
    with reading(part, "UTF-8 text", DataError):
        # A text may hold other characters that end a line for Python.
        lines = packed.decode("utf-8").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        with reading(f"{part}, line {number}", "a JSON object", DataError):
            row = json.loads(line)
        text = row.get("content") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise DataError.at(
                part,
                'an object with a text under "content"',
                "another value",
                line=number,
            )
        yield text
