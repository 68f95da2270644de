from pathlib import Path

from recsys.errors import FileError
from recsys.serving.budget_range import with_budget_range
from recsys.serving.formats import FORMATS
from recsys.serving.list_lengths import with_list_lengths
from recsys.serving.task_classes import with_classes
from recsys.serving.tensor_spec import Runner
from recsys.serving.tensor_spec import Signature
from recsys.serving.two_stage_runner import import_operations
from recsys.serving.two_stage_runner import with_index

DEFAULT_SIGNATURE = "serving_default"
# By which folders of models are known.
FILES = [format.file for format in FORMATS.values()]


def holds_model(folder: Path) -> bool:
    """Returns whether there is a model right in a folder."""
    return any((folder / file).is_file() for file in FILES)


def load(folder: Path, index: str | None = None) -> Runner:
    """Loads a model and tries every signature of it.

    Args:
        folder: With a file of `FILES`.
        index: What two stages search with, as in `with_index`.

    Raises:
        FileError: There is no such model in it, or none that can be served.
    """
    for format in FORMATS.values():
        if (folder / format.file).is_file():
            import_operations(folder)
            runner = format.runner(folder)
            signatures = with_list_lengths(runner.signatures, folder)
            signatures = with_budget_range(signatures, folder)
            runner.signatures = with_classes(signatures, folder)
            break
    else:
        raise FileError.at(
            folder, f"a folder with one of {FILES}", "none of them"
        )
    if DEFAULT_SIGNATURE not in runner.signatures:
        raise FileError.at(
            folder,
            f"a model with the signature {DEFAULT_SIGNATURE!r}",
            f"one with {sorted(runner.signatures)}",
        )
    runner = with_index(runner, folder, index)
    for name, signature in runner.signatures.items():
        _try(runner, name, signature, folder)
    return runner


def _try(runner: Runner, name: str, signature: Signature, folder: Path) -> None:
    """Runs a signature on a few rows: the first call takes far longer."""
    for rows in (1, 3):
        inputs = {
            key: spec.rows(rows) for key, spec in signature.inputs.items()
        }
        for key, values in runner.run(name, inputs).items():
            if values.shape[:1] != (rows,):
                raise FileError.at(
                    folder,
                    f"a row of {key!r} for each of {rows} rows",
                    f"the shape {values.shape}",
                )
