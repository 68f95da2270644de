"""The file of a trained model, checked before it is believed."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keras

# Registers the classes that the file may name.
import keras_moe.layers  # noqa: F401
import recsys.models.interactions
import recsys.models.shared_tower  # noqa: F401
from recsys.atomic import replacing
from recsys.errors import FileError
from recsys.models.image_classifier import ImageClassifier
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.reading import reading

_EXPECTED = "a model that `recsys train` has saved"


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
        with _without_optimizer(model):
            model.save(unpacked, zipped=False)
        with zipfile.ZipFile(unfinished, "w") as archive:
            for member in sorted(unpacked.rglob("*")):
                if member.is_file():
                    archive.write(member, member.relative_to(unpacked))


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
    with reading(file, _EXPECTED):
        _check_members(file)
        model = _load_unpacked(file)
        if not isinstance(model, (ImageClassifier, Ranker)):
            raise FileError.at(
                file, _EXPECTED, f"one of the class {type(model).__name__!r}"
            )
        if isinstance(model, Ranker):
            for name, vocabulary in model.vocabularies.items():
                vocabulary.check(name)
    return model


def _load_unpacked(file: Path) -> keras.Model:
    with tempfile.TemporaryDirectory(prefix="recsys-") as unpacked:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(unpacked)
        return keras.saving.load_model(unpacked, compile=False)


def _check_members(file: Path) -> None:
    """Checks that the file is a zip file, and whole."""
    if not zipfile.is_zipfile(file):
        raise FileError.at(file, _EXPECTED, "one that is no zip file, or cut")
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            # Keras does not compress: a larger one unpacks to anything.
            if member.file_size > file.stat().st_size:
                raise FileError.at(
                    file,
                    _EXPECTED,
                    f"one with a part {member.filename!r} of "
                    f"{member.file_size:,} bytes",
                )
        broken = archive.testzip()
    if broken is not None:
        raise FileError.at(
            file, _EXPECTED, f"one whose part {broken!r} is broken"
        )
