import dataclasses

import keras
import numpy as np
import pytest

from keras_moe.compress import Report
from keras_moe.compress.report import compared

pytestmark = pytest.mark.once("torch")


def test_a_report_reads_well() -> None:
    report = Report(
        8_000_000, 2_100_000, {"m": (16, 4)}, 100, 0.25, 0.0625, 0.5, 0.75
    )
    assert str(report) == (
        "weights      8.00 MB before, 2.10 MB after (26 %)\n"
        "m            16 experts before, 4 after\n"
        "outputs      differ by 0.25 at most, 0.0625 on average, on 100 rows\n"
        "loss         0.5 before, 0.75 after"
    )


@pytest.mark.parametrize(
    ("num_bytes", "size"),
    [(7, "7 B"), (1500, "1.50 kB"), (2_000_000_000, "2.00 GB")],
)
def test_sizes(num_bytes: int, size: str) -> None:
    assert str(Report(num_bytes, num_bytes)) == (
        f"weights      {size} before, {size} after (100 %)"
    )


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Report(1, 1).rows = 2  # type: ignore[misc]


def test_bytes_follow_the_dtypes() -> None:
    def model(dtype: str) -> keras.Model:
        inputs = keras.Input((3,))
        layer = keras.layers.Dense(2, dtype=dtype)
        return keras.Model(inputs, layer(inputs))

    # 3 times 2 weights and 2 biases; seeds are not counted.
    report = compared(model("float32"), model("bfloat16"), {}, None)
    assert (report.bytes_before, report.bytes_after) == (32, 16)
    assert report.max_difference is None
    assert np.isclose(report.bytes_after / report.bytes_before, 0.5)
