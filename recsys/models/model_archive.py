"""The archive that a model's file is, checked before it is unpacked."""

import re
import zipfile
from pathlib import Path

import h5py

from recsys.errors import FileError
from recsys.errors.shown import shown

EXPECTED = "a model that `recsys train` has saved"
CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
# What Keras writes, with the ids of vocabularies as assets.
_MEMBER = re.compile(
    rf"{re.escape(CONFIG)}|{re.escape(WEIGHTS)}|metadata\.json"
    r"|assets/(?:\w+/)+values\.json"
)


def check_members(file: Path) -> None:
    """Checks that a file is a zip file, whole, with nothing but a model in it.

    Keras does not compress, and so no part may be compressed: what is unpacked
    is not larger than the file, wherever a part says that it begins.

    Args:
        file: A file.

    Raises:
        FileError: It is not.
    """
    if not zipfile.is_zipfile(file):
        raise FileError.at(file, EXPECTED, "one that is no zip file, or cut")
    room = file.stat().st_size
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            room -= member.file_size
            received = None
            if not _MEMBER.fullmatch(member.filename) and not member.is_dir():
                received = f"one with a part {shown(member.filename)}"
            elif member.compress_type != zipfile.ZIP_STORED or room < 0:
                received = (
                    f"one whose parts take more than the file: "
                    f"{shown(member.filename)} of {member.file_size:,} bytes"
                )
            if received:
                raise FileError.at(file, EXPECTED, received)
        for name in (CONFIG, WEIGHTS):
            if name not in archive.namelist():
                received = f"one without a part {name!r}"
                raise FileError.at(file, EXPECTED, received)
        broken = archive.testzip()
    if broken is not None:
        raise FileError.at(
            file, EXPECTED, f"one whose part {shown(broken)} is broken"
        )


def check_weights(file: Path, weights: Path) -> int:
    """Checks that weights are all in their file, and as large as it.

    Args:
        file: The file of the model, for the error message.
        weights: Its weights, unpacked.

    Returns:
        The largest of all sizes of weights.

    Raises:
        FileError: Weights are compressed, or in another file.
    """
    room, largest = weights.stat().st_size, 0

    def check(name: str, item: h5py.Group | h5py.Dataset) -> None:
        nonlocal room, largest
        if isinstance(item, h5py.Group):
            kinds = [item.get(key, getlink=True) for key in item]
            if all(isinstance(kind, h5py.HardLink) for kind in kinds):
                return
            received = f"weights with a link in {shown(name)}"
        else:
            room -= item.nbytes
            largest = max(largest, *item.shape, 0)
            if room >= 0 and not item.is_virtual and not item.external:
                return
            received = (
                f"weights that are not all in their file: {shown(name)} of "
                f"{item.nbytes:,} bytes"
            )
        raise FileError.at(file, EXPECTED, received)

    with h5py.File(weights) as content:
        check("/", content)
        content.visititems(check)
    return largest
