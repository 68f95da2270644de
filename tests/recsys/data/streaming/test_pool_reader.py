from pathlib import Path

import pandas as pd

from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.pool_reader import EncodedUnits
from tests.recsys.data.streaming.parts import FRAME
from tests.recsys.data.streaming.parts import opened
from tests.recsys.data.streaming.parts import write


def test_a_unit_is_read_and_encoded_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    encoded = []

    def ages(rows: pd.DataFrame) -> Arrays:
        encoded.append(len(rows))
        return ({"age": rows["age"].to_numpy()},)

    stream = opened(write(tmp_path, ".parquet", FRAME[:3], FRAME[3:]))
    units = EncodedUnits(stream, ages)
    assert encoded == []
    (arrays,) = units(3)
    assert arrays["age"].tolist() == [6]
    assert encoded == [1]
