"""The file of a trained model, checked before it is believed."""

import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import keras
import numpy as np

# Registers the classes that the file may name.
import keras_moe.layers  # noqa: F401
import recsys.models.interactions
import recsys.models.shared_tower
import recsys.models.two_tower
import recsys.sequences.blocks
import recsys.sequences.sequence_retrieval  # noqa: F401
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.files.atomic import replacing
from recsys.files.json_files import parse_json
from recsys.models.image_classifier import ImageClassifier
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.saved_config import check_saved_config
from recsys.private_names import tensorflow_left_out

EXPECTED = "a model that `recsys train` has saved"
CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
# What Keras writes, with the ids of vocabularies and their uses as assets.
_MEMBER = re.compile(
    rf"{re.escape(CONFIG)}|{re.escape(WEIGHTS)}|metadata\.json"
    r"|assets/(?:\w+/)+(?:(?:values|others)\.json|(?:last|counted)\.npy)"
)


def save_model_file(model: MultiTaskModel, file: Path) -> None:
    """Saves a model without the state of its optimizer.

    The file is what `model.save` writes, but for that state, which
    `include_optimizer` does not keep out of a `.keras` file. Keras would put
    the file together in memory, too, where there is any left; with large
    tables, a training has none to give.

    Args:
        model: The model.
        file: The `.keras` file to write.
    """
    with replacing(file) as unfinished:
        unpacked = unfinished.parent / "unpacked"
        with _without_optimizer(model), tensorflow_left_out():
            model.save(unpacked, zipped=False)
        with zipfile.ZipFile(unfinished, "w") as archive:
            for member in sorted(unpacked.rglob("*")):
                if member.is_file():
                    archive.write(member, member.relative_to(unpacked))


def load_weights(model: MultiTaskModel, file: Path) -> None:
    """Gives a model the values that all its variables had when it was saved.

    Args:
        model: The model; the state of its optimizer stays.
        file: What `save_model_file` has made of it.

    Raises:
        FileError: The file is broken.
    """
    with reading(file, EXPECTED), _without_optimizer(model):
        model.load_weights(file)


@contextmanager
def _without_optimizer(model: MultiTaskModel) -> Iterator[None]:
    optimizer = getattr(model, "optimizer", None)  # None unless compiled.
    model.optimizer = None
    try:
        yield
    finally:
        model.optimizer = optimizer


def load_model_file(file: Path) -> MultiTaskModel:
    """Loads a model that a run has saved.

    Keras says "File not found" of a file that is cut off, loads any model of
    its own, and leaves out the assets of a layer where the file has none. Here
    the whole file is checked, and unpacked to a temporary folder: Keras would
    read all weights into memory before it gives the model any.

    Args:
        file: An existing `.keras` file.

    Raises:
        FileError: The file is broken, or holds another model.
    """
    with reading(file, EXPECTED):
        check_members(file)
        model = _load_unpacked(file)
        if not isinstance(model, (ImageClassifier, Ranker)):
            raise FileError.at(
                file, EXPECTED, f"one of the class {type(model).__name__!r}"
            )
        _check_constants(model, file)
        if isinstance(model, Ranker):
            for name, vocabulary in model.vocabularies.items():
                vocabulary.check(name)
    return model


def _load_unpacked(file: Path) -> keras.Model:
    with tempfile.TemporaryDirectory(prefix="recsys-") as unpacked:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(unpacked)
        largest = check_weights(file, Path(unpacked, WEIGHTS))
        place = f"{file}, {CONFIG}"
        config = parse_json(Path(unpacked, CONFIG).read_text("utf-8"), place)
        check_saved_config(config, place, largest)
        return keras.saving.load_model(unpacked, compile=False)


def _check_constants(model: MultiTaskModel, file: Path) -> None:
    """Checks that constant predictions of probabilities are some."""
    for task, kind in model.tasks.items():
        constant = np.asarray(model.constants.get(task, 0.0))
        if kind.activation and ((constant < 0) | (constant > 1)).any():
            expected = f"probabilities at config.constants.{task}"
            received = shown(model.constants[task])
            raise FileError.at(file, f"{EXPECTED}, {expected}", received)


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
