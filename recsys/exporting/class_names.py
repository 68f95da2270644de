from pathlib import Path
from typing import TYPE_CHECKING

from recsys.files.json_files import write_json
from recsys.tasks import Multiclass

if TYPE_CHECKING:
    from recsys.models.ranker import Ranker

# In a SavedModel, `assets.extra` is for what TensorFlow does not read.
CLASSES_FILE = Path("assets.extra", "classes.json")


def class_names(ranker: "Ranker") -> dict[str, list[str]]:
    """Returns the classes of each task whose classes are texts.

    Args:
        ranker: A trained ranker.

    Returns:
        By task, its classes in the order of its output.
    """
    return {
        task: list(kind.classes)
        for task, kind in ranker.tasks.items()
        if isinstance(kind, Multiclass) and kind.classes is not None
    }


def write_class_names(ranker: "Ranker", folder: Path) -> None:
    """Writes `class_names` beside an exported model, where there are any.

    Args:
        ranker: What was exported.
        folder: The folder of the model.
    """
    if names := class_names(ranker):
        write_json(folder / CLASSES_FILE, names)
