"""What a server's page shows beside the predictions of a model."""

from pathlib import Path

from recsys.errors.reading import reading
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.serving.budget_range import BUDGET

# Of the folder of a model. In a SavedModel, `assets.extra` is for what
# TensorFlow does not read.
FACTS_FILE = Path("assets.extra", "page.json")
CALIBRATION, EXAMPLES = "calibration", "examples"


def write_page_facts(
    folder: Path, calibration: JsonMapping, examples: JsonMapping
) -> None:
    """Writes `FACTS_FILE`.

    Args:
        folder: Folder of the model.
        calibration: By task, `"rows"`, `"method"` and `"bins"`, as
            `recsys.measuring.calibration_bands` has them.
        examples: By input, values to begin with; of a budget, the least, the
            model's own and the largest.
    """
    (folder / FACTS_FILE).parent.mkdir(exist_ok=True)
    facts = {CALIBRATION: calibration, EXAMPLES: examples}
    write_json(folder / FACTS_FILE, facts)


def read_page_facts(folder: Path, with_ids: bool) -> JsonObject:
    """Returns `"calibration"` and `"examples"` of a model, as written.

    Args:
        folder: Folder of the model; `FACTS_FILE` need not be there.
        with_ids: Whether the examples are those of all inputs, users' ids
            among them, rather than those of a budget alone.

    Raises:
        FileError: The file is broken.
    """
    file = folder / FACTS_FILE
    if not file.is_file():
        return {CALIBRATION: {}, EXAMPLES: {}}
    with reading(file, "what `recsys export` has written for a server's page"):
        content = read_json(file)
        facts = {key: content[key] for key in (CALIBRATION, EXAMPLES)}
        for band in facts[CALIBRATION].values():
            _check_bins(band["bins"])
        values = facts[EXAMPLES]
        if not all(type(examples) is list for examples in values.values()):
            raise ValueError(values)
    if not with_ids:
        facts[EXAMPLES] = {key: values[key] for key in values if key == BUDGET}
    return facts


def _check_bins(bins: list[dict[str, float]]) -> None:
    keys = ("least", "most", "low", "high")
    numbers = [interval[key] for interval in bins for key in keys]
    if not numbers or not all(type(number) is float for number in numbers):
        raise ValueError(bins)
