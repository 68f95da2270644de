"""What `make test` runs on one backend only is run, and there alone."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import BACKENDS
from tests.conftest import pytest_collection_modifyitems

TESTS = Path(__file__).parent


def test_files_without_keras_are_there() -> None:
    """Pytest would not miss one that has another name by now."""
    paths = (TESTS / "without_keras.txt").read_text().split()
    assert paths == sorted(set(paths))
    for path in paths:
        assert (TESTS.parent / path).exists(), path
        above = {str(parent) for parent in Path(path).parents}
        assert not above & set(paths), path
        if path.endswith(".py"):
            assert Path(path).name.startswith("test_"), path


class Item:
    """A test with or without the mark."""

    def __init__(self, backend: str | None) -> None:
        self.nodeid = str(backend)
        self.backend = backend

    def get_closest_marker(self, name: str) -> Any:
        assert name == "once"
        return self.backend and SimpleNamespace(args=(self.backend,))


@pytest.fixture
def left() -> Callable[..., list[str]]:
    """Which of tests with these marks are not left out."""

    def left(once: bool, *backends: str | None) -> list[str]:
        deselected: list[Item] = []
        hook = SimpleNamespace(
            pytest_deselected=lambda items: deselected.extend(items)
        )
        config: Any = SimpleNamespace(getoption=lambda _: once, hook=hook)
        items: Any = [Item(backend) for backend in backends]
        every = list(items)
        pytest_collection_modifyitems(config, items)
        assert {*items, *deselected} == {*every}
        return [item.nodeid for item in items]

    return left


@pytest.mark.parametrize("backend", [*BACKENDS, "none"])
def test_a_marked_test_runs_on_its_backend_alone(
    backend: str,
    left: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.conftest._backend", lambda: backend)
    everywhere = [None, *BACKENDS]
    own = [backend] if backend in BACKENDS else []
    assert left(True, *everywhere) == ["None", *own]
    assert left(False, *everywhere) == ["None", *BACKENDS]


def test_a_backend_that_is_none(left: Callable[..., list[str]]) -> None:
    """No run would have the test."""
    with pytest.raises(ValueError, match="`once` on 'pytorch'"):
        left(True, "pytorch")
