"""What the API's own description says, asked of the API."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
INT64 = st.integers(-(2**63), 2**63 - 1)
# A schema cannot say that columns have the same length, nor lists; and 413
# is no refusal to schemathesis.
OF_ACCEPTANCE = [
    checks.positive_data_acceptance,
    checks.negative_data_rejection,
]
ROWS = st.fixed_dictionaries(
    {
        "user": INT64,
        "film": st.text(max_size=5),
        "tags": st.lists(INT64, min_size=2, max_size=2),
    },
    optional={"age": st.none() | st.floats(width=32, allow_nan=False)},
)


@pytest.fixture(scope="module")
def client(saved_models: Path) -> Client:
    return Client.of(saved_models, name="m", batch_wait_ms=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_answer_is_one_that_is_described(
    client: Client, mode: GenerationMode
) -> None:
    """Requests that fit the description, and such that do not."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    operation = schema[PREDICT]["POST"]
    seen: Counter[int] = Counter()

    @EXAMPLES
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        response = case.call()
        seen[response.status_code] += 1
        case.validate_response(response, excluded_checks=OF_ACCEPTANCE)

    check()
    assert set(seen) <= {200, 400, 413}
    assert (200 in seen) == (mode is GenerationMode.POSITIVE)


@EXAMPLES
@given(rows=st.lists(ROWS, min_size=1, max_size=3))
def test_every_row_that_fits_is_answered(
    client: Client, rows: list[Any]
) -> None:
    finite = [row for row in rows if abs(row.get("age") or 0) < 1e38]
    if finite:
        response = client.predict({"instances": finite})
        assert response.status_code == 200, response.text
        assert len(response.json()["predictions"]) == len(finite)
