import re
from pathlib import Path
from typing import Any

import yaml

from recsys.errors import FileError
from recsys.errors.reading import read_text
from recsys.errors.reading import reading


class _Loader(yaml.SafeLoader):
    """Reads 5e-5 as a number, and refuses to name something twice.

    The former is what everyone but YAML 1.1 does; of what is named twice, the
    last one would hold without a word.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [
            key for key, _ in node.value if isinstance(key, yaml.ScalarNode)
        ]
        names: set[str] = set()
        for key in keys:
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def read_yaml(file: Path) -> Any:
    """Returns the content of a YAML file.

    Raises:
        FileError: The file is not YAML, names something twice, or cannot be
            read.
        FileNotFoundError: There is none.
    """
    text = read_text(file, "YAML")
    with reading(file, "YAML"):
        try:
            return yaml.load(text, _Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise FileError.at(
                file,
                "YAML",
                f"text that breaks off at column {mark.column + 1} "
                f"({error.problem or error.context})",
                line=mark.line + 1,
            ) from None
