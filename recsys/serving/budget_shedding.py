"""Fewer experts per row while a server has more requests than it keeps up with.

Of a model with an input `budget` only: that of a run with `--gate budget`.
"""

from dataclasses import replace
from math import inf

import numpy as np

from recsys.files.json_files import JsonObject
from recsys.serving.budget_range import BUDGET
from recsys.serving.predict_request import PredictRequest

CAP_HEADER = "Budget-Cap"  # Of an answer to a request with a lowered budget.
# Shares of what a server bears, the pressure, at which the cap falls, and below
# which it may rise. Between them it stays, so that it does not swing.
_FALLS_AT = 0.5
_RISES_BELOW = 0.25
# Batches in a row of little pressure before the cap rises once: at first, and
# at most. A rise to what the traffic does not allow costs requests their time.
_PATIENCE = 16
_MOST_PATIENCE = 256


class BudgetShedding:
    """A cap on the budget of each row, moved from batch to batch.

    The pressure of a batch is the larger of two shares: the time that its
    oldest request has waited, of `wait`; and the other requests that are
    queued or in the batch, of `requests`. At a pressure of 1/2, the cap falls
    to half of the largest budget in the batch, or of itself where that is less,
    until it is `floor`. After 16 batches in a row with a pressure below 1/4 it
    doubles; once no budget of the batch is above it, there is no cap. If it
    falls again within as many batches as it has waited for, it waits for twice
    as many next time, up to 256; after a rise that lasted, for half. Budgets
    above `most` count as `most`: one absurd request does not keep the cap from
    falling to where it saves time. The cap depends on nothing else.

    Attributes:
        cap: Most experts of a row on average; infinite without pressure.

    Args:
        wait: Seconds that a request should wait at most to be computed.
        requests: How many requests the server has at most.
        floor: The lowest cap, at least 1.
        most: The largest budget that counts.

    Example:
    >>> shedding = BudgetShedding(wait=0.1, requests=128, floor=1.0)
    >>> [shedding.move(0.06, 9, largest=8) for _ in range(4)]
    [4.0, 2.0, 1.0, 1.0]
    """

    def __init__(
        self, wait: float, requests: int, floor: float, most: float = inf
    ) -> None:
        self.cap = inf
        self._wait = wait
        self._requests = requests
        self._floor = floor
        self._most = most
        self._calm = 0
        self._patience = _PATIENCE
        self._since_rise = inf  # Batches; infinite if the cap fell since.
        self._pressure = 0.0
        self._rows = self._capped_rows = 0

    def move(self, waited: float, requests: int, largest: float) -> float:
        """Returns the cap of a batch, moved by its pressure.

        Args:
            waited: Seconds that its oldest request has waited.
            requests: How many others are queued or in the batch.
            largest: The largest budget in it.
        """
        self._pressure = max(waited / self._wait, requests / self._requests)
        largest = min(largest, self._most)
        is_calm = self._pressure < _RISES_BELOW
        self._calm = self._calm + 1 if is_calm else 0
        self._since_rise += 1
        if self._pressure >= _FALLS_AT:
            self._fall(largest)
        elif self.cap < inf and self._calm >= self._patience:
            self._rise(largest)
        return self.cap

    def _fall(self, largest: float) -> None:
        if self._since_rise <= self._patience:  # It was too early.
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        elif self._since_rise < inf:
            self._wait_less()
        self._since_rise = inf
        self.cap = max(self._floor, min(self.cap, largest) / 2)

    def _rise(self, largest: float) -> None:
        if self._since_rise < inf:
            self._wait_less()
        self._since_rise = 0
        self._calm = 0
        self.cap *= 2
        if self.cap >= largest:
            self.cap = inf

    def _wait_less(self) -> None:
        """The last rise has lasted."""
        self._patience = max(self._patience // 2, _PATIENCE)

    def caps(
        self, batch: list[PredictRequest], waited: float, requests: int
    ) -> tuple[list[PredictRequest], list[bool]]:
        """Returns a batch with no budget above the cap.

        Args:
            batch: Requests of one signature.
            waited: As in `move`.
            requests: As in `move`.

        Returns:
            The requests, and whether a row of each has a lower budget now. A
            signature without budgets stays as it is, and moves nothing.
        """
        if BUDGET not in batch[0].inputs:
            return batch, [False] * len(batch)
        budgets = [request.inputs[BUDGET] for request in batch]
        cap = self.move(
            waited, requests, max(float(budget.max()) for budget in budgets)
        )
        above = [int(np.count_nonzero(budget > cap)) for budget in budgets]
        self._rows += sum(request.rows for request in batch)
        self._capped_rows += sum(above)
        capped = [
            _capped(request, cap) if rows else request
            for request, rows in zip(batch, above, strict=True)
        ]
        return capped, [rows > 0 for rows in above]

    def status(self) -> JsonObject:
        """Returns the cap, the last pressure, and how many rows were capped."""
        return {
            "budget_cap": None if self.cap == inf else self.cap,
            "pressure": round(self._pressure, 3),
            "rows": self._rows,
            "capped_rows": self._capped_rows,
        }


def _capped(request: PredictRequest, cap: float) -> PredictRequest:
    budgets = np.minimum(request.inputs[BUDGET], np.float32(cap))
    return replace(request, inputs={**request.inputs, BUDGET: budgets})
