from pathlib import Path

import pandas as pd
import pytest

from recsys.data.columns import parse
from recsys.data.streaming.frames import column_parts
from tests.recsys.data.streaming.parts import FRAME
from tests.recsys.data.streaming.parts import SCHEMA
from tests.recsys.data.streaming.parts import opened
from tests.recsys.data.streaming.parts import write

pytestmark = pytest.mark.once("torch")


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz"])
def test_features_fitted_to_a_stream_are_those_of_the_split(
    tmp_path: Path, suffix: str
) -> None:
    stream = opened(write(tmp_path, suffix, FRAME[:5], FRAME))
    frame = pd.concat([FRAME[:5], FRAME], ignore_index=True)
    held = parse(frame, SCHEMA.columns, "train")
    for name, kind in SCHEMA.features.items():
        fitted = kind.fit(column_parts(stream, name))
        expected = kind.fit([held[name]])
        if expected.vocabulary is None:
            state = fitted.get_state()
            for key, value in expected.get_state().items():
                assert state[key] == pytest.approx(value)
        else:
            assert fitted.vocabulary is not None
            assert fitted.vocabulary.values.equals(expected.vocabulary.values)
