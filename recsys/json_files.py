import json
from pathlib import Path
from typing import Any

from recsys.atomic import replacing


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file.

    Raises:
        ValueError: The file is not JSON.
        OSError: The file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON. Received: {error}") from None


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    with replacing(path) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
