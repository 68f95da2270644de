from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Settings = Callable[..., dict[str, Any]]


@pytest.fixture
def fields(settings: Settings, tmp_path: Path) -> dict[str, Any]:
    """What all trials of a sweep share; its learning rate is free."""
    fields = settings(tmp_path / "sweep")
    return {name: fields[name] for name in fields if name != "learning_rate"}
