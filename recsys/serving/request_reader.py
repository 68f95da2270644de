import asyncio
import gc
from collections.abc import Callable
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature

Result = TypeVar("Result")

# Up to so many bytes, or values, what takes well under a millisecond is done
# at once. Larger bodies wait for each other, and not for the largest ones.
_SMALL_BYTES = 2**13
_LARGE_BYTES = 2**18
_SMALL_VALUES = 2**11


class RequestReader:
    """Reads predict requests and writes their answers, other requests going on.

    Args:
        max_rows: Most rows of a request.
        max_values: Most values of a request, as `PredictRequest.from_body`
            counts them.
    """

    def __init__(self, max_rows: int, max_values: int) -> None:
        self._max_rows = max_rows
        self._max_values = max_values
        self._short = ThreadPoolExecutor(1, "read")
        self._long = ThreadPoolExecutor(1, "read-large")

    async def read(
        self, body: bytes, signatures: Mapping[str, Signature]
    ) -> PredictRequest:
        """Reads a request.

        Args:
            body: Its body.
            signatures: What the model can be asked.

        Raises:
            RequestError: It is not what the model takes.
        """

        def from_body() -> PredictRequest:
            return PredictRequest.from_body(
                body, signatures, self._max_rows, self._max_values
            )

        size = len(body)
        if size <= _SMALL_BYTES:
            return from_body()
        is_short = size <= _LARGE_BYTES
        outcome = await asyncio.get_running_loop().run_in_executor(
            self._short if is_short else self._long,
            _or_error if is_short else _uncollected,
            from_body,
        )
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    async def write(self, request: PredictRequest, outputs: Arrays) -> bytes:
        """Returns the body of an answer, as `PredictRequest.answer` does."""
        if sum(values.size for values in outputs.values()) <= _SMALL_VALUES:
            return request.answer(outputs)
        return await asyncio.get_running_loop().run_in_executor(
            self._short, request.answer, outputs
        )


def _or_error(read: Callable[[], Result]) -> Result | RequestError:
    """Returns a function's result, or its error without the traceback.

    A traceback keeps the variables of all functions on it.
    """
    try:
        return read()
    except RequestError as error:
        return type(error)(str(error))


def _uncollected(read: Callable[[], Result]) -> Result | RequestError:
    """The same without a garbage collection, in a thread that is the only one.

    What JSON makes has no cycles. Each collection among its lists would hold
    up all threads, and there would be many.
    """
    gc.disable()
    try:
        return _or_error(read)
    finally:
        gc.enable()
