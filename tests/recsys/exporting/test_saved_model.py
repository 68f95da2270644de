import dataclasses
from collections import Counter
from pathlib import Path

import keras
import pytest

from recsys import Dataset
from recsys import TrainConfig
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.models.build import build_ranker
from recsys.training.resolve_config import resolve_config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="SavedModels are written under TensorFlow",
    ),
]

CONFIG = TrainConfig(
    "tiny",
    "run",
    gate="top-k",
    num_experts=16,
    k=2,
    embedding_dim=128,
    expert_units=[256],
    head_units=[4],
)


def operations(dataset: Dataset, folder: Path, execution: str) -> Counter[str]:
    """How often each operation is in the graph that is served."""
    from tensorflow.core.protobuf import saved_model_pb2

    config = dataclasses.replace(CONFIG, execution=execution)
    ranker = build_ranker(resolve_config(config, dataset.schema), dataset)
    export_format("tf_saved_model").write(ServedRanker(ranker), folder)
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    return Counter(
        node.op for function in functions for node in function.node_def
    )


def test_sparse_execution_stays_on(tiny: Dataset, tmp_path: Path) -> None:
    """Each expert has a matmul of its own rows; dense, all have one."""
    found = {
        execution: operations(tiny, tmp_path / execution, execution)
        for execution in ("dense", "sparse", "auto")
    }
    assert found["dense"]["Einsum"] > 0
    for execution in ("sparse", "auto"):
        assert found[execution]["Einsum"] == 0
        more = found[execution]["MatMul"] - found["dense"]["MatMul"]
        assert more == CONFIG.num_experts
