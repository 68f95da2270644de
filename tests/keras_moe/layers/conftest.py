from collections.abc import Iterator

import keras
import pytest

from keras_moe.layers import execution
from tests.compiled_calls import compiled_calls
from tests.examples import Drawn


@pytest.fixture
def sparse_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `"auto"` run sparse on shapes as tiny as those of the tests."""
    monkeypatch.setattr(execution, "sparse_pays", lambda *_: True)


@pytest.fixture(autouse=True)
def _calls_are_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiles calls of layers on JAX, in `make test`; not in `make test-all`.

    The mark `eager` is for tests of what values or Python code decide.
    """
    on_jax = keras.backend.backend() == "jax"
    if Drawn.few and on_jax and not request.node.get_closest_marker("eager"):
        with compiled_calls():
            yield
    else:
        yield
