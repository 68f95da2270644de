"""Classes of a model's tasks, as its export has written them."""

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TaskClasses

# Of the folder of a model. In a SavedModel, `assets.extra` is for what
# TensorFlow does not read.
CLASSES_FILE = Path("assets.extra", "classes.json")


def write_classes(
    folder: Path, classes: Mapping[str, Sequence[str] | Sequence[int]]
) -> None:
    """Writes `CLASSES_FILE`, unless no task has classes.

    Args:
        folder: Folder of the model.
        classes: By multiclass task, its classes in the order of the model.
    """
    if classes:
        (folder / CLASSES_FILE).parent.mkdir(exist_ok=True)
        write_json(folder / CLASSES_FILE, classes)


def with_classes(
    signatures: Mapping[str, Signature], folder: Path
) -> dict[str, Signature]:
    """Returns signatures that know the classes of their outputs.

    The output of a task has its name and a number for each class. Two stages
    have an output `<task>_<class>` for each class instead.

    Args:
        signatures: Signatures of the model in a folder.
        folder: The folder; `CLASSES_FILE` need not be there.

    Raises:
        FileError: The file is broken, or is not that of the model.
    """
    classes = _read(folder / CLASSES_FILE)
    known: dict[str, Signature] = {}
    for name, signature in signatures.items():
        of_outputs = {
            task: TaskClasses(names, outputs)
            for task, names in classes.items()
            if (outputs := _outputs(task, names, signature))
        }
        for of_task in of_outputs.values():
            _check_size(folder, signature, of_task)
        known[name] = replace(signature, classes=of_outputs)
    return known


def _outputs(
    task: str, names: Sequence[str | int], signature: Signature
) -> list[str]:
    """The outputs of a task, none of a signature that does something else."""
    if task in signature.outputs:
        return [task]
    by_class = [f"{task}_{name}" for name in names]
    return by_class if {*by_class} <= signature.outputs.keys() else []


def _check_size(
    folder: Path, signature: Signature, classes: TaskClasses
) -> None:
    """Checks that the output of all classes has as many numbers in a row."""
    if len(classes.outputs) > 1:
        return
    shape = signature.outputs[classes.outputs[0]].shape
    size = shape[1] if len(shape) == 2 else 1
    if size not in (None, len(classes.names)):
        raise FileError.at(
            folder / CLASSES_FILE,
            f"the classes of the output {classes.outputs[0]!r}, {size:,}",
            f"{len(classes.names):,}",
        )


def _read(file: Path) -> dict[str, list[str] | list[int]]:
    if not file.is_file():
        return {}
    with reading(file, "the classes of tasks that `recsys export` has written"):
        return {
            str(task): _checked(names)
            for task, names in read_json(file).items()
        }


def _checked(names: list[str] | list[int]) -> list[str] | list[int]:
    """Different texts, or 0, 1, 2, ...; two or more of them."""
    are_texts = all(type(name) is str for name in names)
    if are_texts and len({*names}) == len(names) > 1:
        return names
    are_integers = all(type(name) is int for name in names)
    if are_integers and names == [*range(len(names))] and len(names) > 1:
        return names
    raise ValueError(names)
