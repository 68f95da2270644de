from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recsys
from recsys.reporting.changed_model import with_configs

pytestmark = pytest.mark.once("torch")


@pytest.mark.slow
def test_shared_permutation_is_kept(settings: Any, tmp_path: Path) -> None:
    fields = {"gate": "top-k+", "search_epochs": 1, "epochs": 1}
    recsys.train(settings(tmp_path / "run", **fields))
    model = recsys.load_model(tmp_path / "run")
    permutation = model.mixture.gates["watch"].permutation
    permutation.order.assign([2, 0, 3, 1])
    changed = with_configs(
        model,
        lambda config: (
            {**config, "execution": "dense"}
            if "execution" in config
            else config
        ),
    )
    gates = changed.mixture.gates
    assert gates["rating"].permutation is gates["watch"].permutation
    assert (model.mixture.execution, changed.mixture.execution) == (
        "auto",
        "dense",
    )
    inputs = {
        "user": np.arange(6),
        "film": np.arange(6),
        "age": np.zeros(6, "float32"),
    }
    expected = model.predict(inputs, verbose=0)
    for task, values in changed.predict(inputs, verbose=0).items():
        np.testing.assert_allclose(values, expected[task], atol=1e-5)
