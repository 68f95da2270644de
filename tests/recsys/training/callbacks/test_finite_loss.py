from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from recsys import NonFiniteLossError
from recsys.models.scorer import Scorer
from recsys.models.scorer import Scores
from recsys.tasks import Regression
from recsys.tasks import RowRoles
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.callbacks.validation import Validation


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_training_loss_names_epoch_and_step(loss: float) -> None:
    callback = FiniteLoss()
    callback.on_epoch_begin(2)
    callback.on_train_batch_end(6, {"loss": 0.5})
    callback.on_train_batch_begin(7)
    with pytest.raises(
        NonFiniteLossError, match=f"a loss of {loss} in epoch 3, step 8"
    ):
        callback.on_train_batch_end(7, {"loss": loss})


def test_validation_loss_names_the_epoch() -> None:
    frame = pd.DataFrame({"rating": [1.0, 2.0]})
    lost = np.full(2, np.nan)
    scorer = SimpleNamespace(
        model=SimpleNamespace(tasks={"rating": Regression()}, target_scales={}),
        score=lambda frame: Scores({"rating": lost}, {"rating": lost}),
    )
    callback = Validation(
        cast(Scorer, scorer), frame, frame, {"rating": 1.0}, RowRoles()
    )
    with pytest.raises(NonFiniteLossError, match="a loss of nan after epoch 3"):
        callback.on_epoch_end(2, {})
