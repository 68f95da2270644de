"""A ranker with retrieval as it is exported to rank alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest

from recsys import TrainConfig
from recsys.data import Dataset
from recsys.errors import ExportError
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.models.build import build_ranker
from recsys.models.two_tower import TwoTower
from recsys.training.resolve_config import resolve_config
from tests.recsys.retrieval.stored import stored_shapes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]


@pytest.fixture
def ranker(
    films: Dataset, fields: Callable[..., dict[str, Any]], tmp_path: Path
) -> TwoTower:
    config = TrainConfig(**fields(tmp_path / "run"))
    model = build_ranker(resolve_config(config, films.schema), films)
    assert isinstance(model, TwoTower)
    return model


def test_a_saved_model_stores_nothing_of_retrieval(
    ranker: TwoTower, tmp_path: Path
) -> None:
    export_format("tf_saved_model").write(
        ServedRanker(ranker), tmp_path / "model"
    )
    shapes = stored_shapes(tmp_path / "model")
    assert [*ranker.embeddings["user"].embeddings.shape] in shapes
    vectors = [*ranker.retrieval.vectors.shape]
    assert vectors in [[*each.shape] for each in ranker.variables]
    assert vectors not in shapes
    retrieval = len(ranker.retrieval.variables)
    assert len(shapes) == len(ranker.variables) - retrieval


def test_an_onnx_file_stores_nothing_of_retrieval(
    ranker: TwoTower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, served = export_format("onnx"), ServedRanker(ranker)
    needed = sum(each.numpy().nbytes for each in ranker.ranking_variables)
    # Retrieval does not count for what a file has room for.
    monkeypatch.setattr("recsys.exporting.onnx_file._MOST_BYTES", needed)
    form.write(served, tmp_path / "model")
    file = onnx.load(tmp_path / "model" / "model.onnx")
    stored = [onnx.numpy_helper.to_array(one) for one in file.graph.initializer]
    for weight in ranker.retrieval.get_weights():
        alike = [one for one in stored if one.shape == weight.shape]
        # Nothing but zeros may be alike by accident.
        assert not weight.any() or not any(
            np.array_equal(one, weight) for one in alike
        )
    monkeypatch.setattr("recsys.exporting.onnx_file._MOST_BYTES", needed - 1)
    with pytest.raises(ExportError, match="at most 2 GiB"):
        form.write(served, tmp_path / "other")
