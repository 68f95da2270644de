"""Values to begin with, of features of all kinds."""

import numpy as np
import pandas as pd
import pytest

from recsys.exporting.examples import examples
from recsys.features.bucket import Bucket
from recsys.features.feature import FittedFeature
from recsys.features.id import Id
from recsys.features.id_list import IdList
from recsys.features.number import Number
from recsys.features.vector import Vector

pytestmark = pytest.mark.once("torch")

LARGE = 2**53 + 1


def fitted(
    kind: type, values: list[object], **options: object
) -> FittedFeature:
    feature = kind(**options)
    return feature.fit([feature.check(pd.Series(values), "feature")])


def test_ids_are_known_ones_as_requests_have_them() -> None:
    found = examples(
        {
            "user": fitted(Id, [LARGE, LARGE + 1, LARGE]),
            "film": fitted(Id, ["<b>", "é"]),
            "many": fitted(Id, [*range(100)]),
        }
    )
    assert found["user"] == [LARGE, LARGE + 1]
    assert found["film"] == ["<b>", "é"]
    assert found["many"] == [*range(20)]


def test_other_values_are_drawn_without_missing_ones() -> None:
    found = examples(
        {
            "age": fitted(Number, [20.0, 30.0, 40.0]),
            "size": fitted(Bucket, [1.0, 2.0, 3.0, 4.0], quantiles=2),
            "tags": fitted(IdList, [["a", "b"], ["b"]]),
            "cover": fitted(Vector, [np.zeros(2), np.ones(2)], size=2),
        }
    )
    assert {*found} == {"age", "size", "tags", "cover"}
    for name in ("age", "size"):
        assert np.isfinite(found[name]).all()
        assert len({*found[name]}) == len(found[name]) > 1
    assert all(tags and all(tags) for tags in found["tags"])
    assert {len(cover) for cover in found["cover"]} == {2}
