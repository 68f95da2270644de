import re
import unicodedata
from collections.abc import Iterable
from keyword import iskeyword
from pathlib import Path

from recsys.files.json_files import read_json
from recsys.serving.monitoring.request_columns import INPUTS_FILE as INPUTS_FILE

_INPUT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def input_names(features: Iterable[str]) -> dict[str, str]:
    """Names the inputs of a served model after the features of a model.

    An input is an argument of a function and a node of a graph: its name is a
    letter, then letters, digits and `_`, no keyword of Python, and no other
    input has it, in upper or lower case. A feature with such a name keeps it.
    In other names, accents are dropped and whatever else may not stand there
    becomes `_`; `input_` goes before a name that does not begin with a
    letter, and a number behind one that is taken.

    Args:
        features: Names of the features, each of them once.

    Returns:
        By feature, the name of its input, in the order of the features.

    Example:
    >>> input_names(["user id", "user_id", "1st visit", "größe", "class"])
    ... # doctest: +NORMALIZE_WHITESPACE
    {'user id': 'user_id_2', 'user_id': 'user_id',
     '1st visit': 'input_1st_visit', 'größe': 'gro_e', 'class': 'class_'}
    """
    features = list(features)
    inputs: dict[str, str] = {}
    taken: set[str] = set()
    # Those that can keep their names go first.
    for feature in sorted(features, key=lambda name: not _is_valid(name)):
        base = feature if _is_valid(feature) else _made_valid(feature)
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name.lower())
        inputs[feature] = name
    return {feature: inputs[feature] for feature in features}


def read_input_names(folder: Path) -> dict[str, str]:
    """Returns what `input_names` has named the inputs of a served model."""
    return dict(read_json(folder / INPUTS_FILE))


def _is_valid(name: str) -> bool:
    if iskeyword(name) or name == "self":
        return False
    return _INPUT_NAME.fullmatch(name) is not None


def _made_valid(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name)
    plain = "".join(c for c in letters if not unicodedata.combining(c))
    plain = re.sub(r"[^A-Za-z0-9_]", "_", plain)
    if not plain[:1].isalpha():
        plain = "input_" + plain.lstrip("_")
    return plain if _is_valid(plain) else plain + "_"
