from collections.abc import Iterator
from typing import Any

import keras
import pytest

from tests.examples import Drawn


@pytest.fixture(scope="module", autouse=True)
def _optimizers_are_built() -> Iterator[None]:
    """Builds the optimizer of a built model before `fit` does, in `make test`.

    TensorFlow traces a step twice if it creates variables, such as momenta. A
    model that is not built yet still creates them, and its own, in the step.
    """
    if not Drawn.few or keras.backend.backend() != "tensorflow":
        yield
        return
    fit = keras.Model.fit

    def fit_built(model: Any, *args: Any, **kwargs: Any) -> Any:
        optimizer = model.optimizer
        if optimizer and not optimizer.built and _is_built(model):
            optimizer.build(model.trainable_variables)
        return fit(model, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "fit", fit_built)
        yield


def _is_built(model: keras.Model) -> bool:
    return all(layer.built for layer in (model, *model.layers))
