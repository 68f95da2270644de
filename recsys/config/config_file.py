from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from recsys.config.train_config import TrainConfig
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.shapes import check_shape
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json


def check_fields(fields: JsonObject) -> JsonObject:
    """Returns fields of `TrainConfig`, as many as one likes.

    Args:
        fields: The fields by name.

    Raises:
        ValueError: A field is unknown or wrong.
    """
    # Where it is trained, on what and with how many experts may be said
    # elsewhere.
    part = {"data": ".", "out": ".", "num_experts": MOST_EXPERTS, **fields}
    try:
        TrainConfig.from_mapping(part)
    except TypeError as error:  # Pydantic takes it for an error of ours.
        raise ValueError(str(error)) from None
    return fields


Fields = Annotated[JsonObject, AfterValidator(check_fields)]
"""The shape of fields of `TrainConfig`, as many as one likes."""


def read_fields(file: Path) -> JsonObject:
    """Reads the fields of a training configuration from a JSON file.

    Args:
        file: The `config.json` of a run, or one like it with as many fields
            as one likes.

    Returns:
        The fields by name.

    Raises:
        FileError: It is no JSON object, or a field is unknown or wrong.
        FileNotFoundError: There is no file.
    """
    fields: JsonObject = check_shape(read_json(file), Fields, file)
    return fields
