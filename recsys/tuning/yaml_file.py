import re
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Reads 5e-5 as a number, as everyone but YAML 1.1 does."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def read_yaml(file: Path) -> Any:
    """Returns the content of a YAML file.

    Raises:
        ValueError: The file is not YAML.
        OSError: The file cannot be read.
    """
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{file}: expected YAML. Received: {text}") from None
