import pytest

from keras_moe.layers import execution


@pytest.fixture
def sparse_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `"auto"` run sparse on shapes as tiny as those of the tests."""
    monkeypatch.setattr(execution, "sparse_pays", lambda *_: True)


@pytest.fixture(autouse=True)
def _calls_are_compiled(compiled_calls: None) -> None:
    """All tests of layers, for which it takes half the time."""
