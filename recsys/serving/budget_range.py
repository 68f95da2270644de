"""The budgets that a model can have, written by its export."""

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import with_inputs

BUDGET = "budget"  # The input, of experts per row on average.
# Of the folder of a model. In a SavedModel, `assets.extra` is for what
# TensorFlow does not read.
BUDGET_FILE = Path("assets.extra", "budget.json")


def write_budget_range(folder: Path, budgets: Sequence[float]) -> None:
    """Writes `BUDGET_FILE`, unless the model takes no budget.

    Args:
        folder: Folder of the model.
        budgets: The least and the largest budget, and others; or nothing.
    """
    if budgets:
        (folder / BUDGET_FILE).parent.mkdir(exist_ok=True)
        bounds = {"least": float(min(budgets)), "most": float(max(budgets))}
        write_json(folder / BUDGET_FILE, bounds)


def with_budget_range(
    signatures: Mapping[str, Signature], folder: Path
) -> dict[str, Signature]:
    """Returns signatures whose input `budget` knows its range.

    Args:
        signatures: Signatures of the model in a folder.
        folder: The folder; without `BUDGET_FILE`, as of a model of another
            origin, an input of this name takes any number.

    Raises:
        FileError: The file is broken.
    """
    bounds = _read(folder / BUDGET_FILE)
    return with_inputs(
        signatures,
        lambda key, spec: (
            replace(spec, bounds=bounds) if key == BUDGET else spec
        ),
    )


def _read(file: Path) -> tuple[float, float] | None:
    if not file.is_file():
        return None
    with reading(file, "the range of budgets that `recsys export` has written"):
        content = read_json(file)
        least, most = content["least"], content["most"]
        if not type(least) is type(most) is float or not 1 <= least <= most:
            raise ValueError(content)
    return least, most
