from pathlib import Path

from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.reading import reading
from studies.published_files import find_file

SPLITS = ("train", "valid", "test")

# What stands in the text for words that are not among the published ones.
UNKNOWN_WORD = "<unk>"


def read_wikitext(folder: str | Path, split: str) -> str:
    """Reads one split of WikiText-2 or WikiText-103 as one text.

    The words are separated by spaces, headings stand between `=` signs, and
    `<unk>` stands for rare words, all as published.

    Args:
        folder: The folder with `wiki.train.tokens`, `wiki.valid.tokens` and
            `wiki.test.tokens`, as they are published, or with `train.txt`,
            `valid.txt` and `test.txt`; each may be packed, `.gz`.
        split: `"train"`, `"valid"` or `"test"`.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: The file is broken, empty, or not UTF-8.
        ValueError: `split` is none of them.

    References:
        Merity et al., Pointer Sentinel Mixture Models, ICLR 2017, section 4.
    """
    if split not in SPLITS:
        raise ValueError(
            f"`split` must be one of {SPLITS}. Received: split={split!r}"
        )
    names = [f"wiki.{split}.tokens", f"{split}.txt"]
    file = find_file(Path(folder), names)
    packed = read_packed(file)
    with reading(file, "UTF-8 text", DataError):
        text = packed.decode("utf-8")
    if not text.strip():
        raise DataError.at(file, "text", "an empty file")
    return text
