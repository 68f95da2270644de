import pytest

from recsys.data import Schema
from recsys.reporting.comparison import experts

pytestmark = pytest.mark.once("torch")

MIXTURES = ["shared bottom", "dense mixture", "sparse mixture"]
NEURAL = ["narrow shared bottom", *MIXTURES]


def test_experts_are_compared_with_what_the_data_have() -> None:
    features, tasks = {"age": "number"}, {"click": "binary"}
    plain = experts(Schema("log", features, tasks))
    assert [*plain.models] == ["linear", "boosted trees", *NEURAL]
    # Two experts for each task.
    assert plain.models["narrow shared bottom"]["num_experts"] == 2
    tasks["price"] = "regression"
    simple = ["linear", "boosted trees", "single-task models"]
    users = experts(Schema("log", {"user": "id"}, tasks))
    assert [*users.models] == ["biases", *simple, *NEURAL]
    log = experts(Schema("log", {"user": "id", "item": "id"}, tasks))
    both = ["biases", "matrix factorization"]
    assert [*log.models] == [*both, *simple, *NEURAL]
    assert log.models["narrow shared bottom"]["num_experts"] == 4
    digits = dict.fromkeys(["left", "right"], "multiclass")
    images = experts(Schema("digits", {"image": "image"}, digits))
    assert [*images.models] == ["single-task models", *MIXTURES]
