"""Batches of an epoch of a sequence tower, which are of several lengths."""

import keras
import numpy as np
import pytest
from keras import ops

from recsys.runs.run import Run
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.training.tower_training import WindowBatches
from recsys.training.tower_training import create_tower_training
from tests.recsys.sequences.conftest import ITEMS


class OfLengths(WindowBatches):
    """Batches of 5 sequences, of lengths that are given."""

    def __init__(self, lengths: list[int]) -> None:
        keras.utils.PyDataset.__init__(self)
        rng = np.random.default_rng(0)
        self.batches = []
        for length in lengths:
            items = rng.integers(1, ITEMS, (5, length + 1)).astype(np.int32)
            batch = {"items": items[:, :-1], "targets": items[:, 1:]}
            self.batches.append(batch)


@pytest.mark.parametrize("lengths", [[4, 4, 6], [6, 6, 6, 4], [5]])
def test_any_batch_may_have_another_length(
    run: Run, lengths: list[int]
) -> None:
    retrieval = run.load_two_tower().retrieval
    assert isinstance(retrieval, SequenceRetrieval)
    training = create_tower_training(retrieval, run.read_config(), len(lengths))
    batches = OfLengths(lengths)
    expected = [
        float(ops.convert_to_numpy(training(inputs)))
        for inputs in batches.batches
    ]
    # Its first step has no rate yet: weights change from the second on.
    assert training.fit_epoch(batches, seed=0, epoch=0) == pytest.approx(
        np.mean(expected), rel=0.2
    )
