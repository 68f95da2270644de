"""Metrics of a server for Prometheus.

By `prometheus_client`: pure Python without dependencies, 210 kB, and right
about the text format's escapes, histograms and names; what an own exposition
would have to repeat.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from math import isfinite

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client import Counter
from prometheus_client import Gauge
from prometheus_client import Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.metrics_core import SummaryMetricFamily

from recsys.files.json_files import JsonObject
from recsys.serving.monitoring.known_ids import KnownIds
from recsys.serving.monitoring.output_statistics import OutputStatistics
from recsys.serving.tensor_spec import Arrays

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_ROWS = tuple(float(2**power) for power in range(0, 14, 2))
# What a predict request was refused for, by the status of the answer.
_REASONS = {
    400: "invalid",
    401: "token",
    404: "version",
    408: "late_body",
    413: "too_large",
    503: "overloaded",
    504: "timeout",
}
_ID_STATES = ("known", "unknown", "missing")

Status = Callable[[], JsonObject]


class ServerMetrics:
    """Counts requests, batches and what they hold, and tells Prometheus.

    All names begin with `recsys_`; `docs/serving.md` lists them.

    Attributes:
        under_way: Gauge of the predict requests that are answered right now.
        unlogged: Counter of sampled requests that were not logged, because the
            log could not keep up.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._requests = Counter(
            "recsys_requests",
            "Answered requests",
            ["endpoint", "status", "version"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "recsys_request_seconds",
            "Seconds from a request's head to the end of its answer",
            ["endpoint", "version"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._rejected = Counter(
            "recsys_rejected_requests",
            "Predict requests and connections that were refused",
            ["reason"],
            registry=registry,
        )
        self.under_way = Gauge(
            "recsys_requests_under_way",
            "Predict requests that are answered right now",
            registry=registry,
        )
        self._batch_rows = Histogram(
            "recsys_batch_rows",
            "Rows that are computed together",
            ["version"],
            buckets=_ROWS,
            registry=registry,
        )
        self._batch_seconds = Histogram(
            "recsys_batch_seconds",
            "Seconds that the model takes for a batch",
            ["version"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._ids = Counter(
            "recsys_ids",
            "Ids of up to 256 rows of each batch; the share of unknown ones "
            "is that of the model's vocabulary",
            ["input", "state", "version"],
            registry=registry,
        )
        self.unlogged = Counter(
            "recsys_unlogged_requests",
            "Requests of the sample that were not logged",
            registry=registry,
        )
        self._outputs = OutputStatistics()
        registry.register(_Sums(self._outputs))

    def watch(self, status: Status) -> None:
        """Also tells versions and budgets.

        Args:
            status: Returns what `GET /v1/models/NAME` answers.
        """
        self._registry.register(_Versions(status))

    def answered(
        self, endpoint: str, status: int, seconds: float, version: str = ""
    ) -> None:
        """Counts an answered request.

        Args:
            endpoint: What was asked, one of a few names.
            status: Status of the answer.
            seconds: How long it took.
            version: The version that was asked, empty for none.
        """
        self._requests.labels(endpoint, str(status), version).inc()
        self._request_seconds.labels(endpoint, version).observe(seconds)
        if endpoint == "predict" and status in _REASONS:
            self._rejected.labels(_REASONS[status]).inc()

    def connection_refused(self) -> None:
        """Counts a connection beyond the most there may be."""
        self._rejected.labels("connections").inc()

    def computed(
        self,
        version: str,
        known: KnownIds,
        inputs: Mapping[str, np.ndarray],
        outputs: Arrays,
        seconds: float,
    ) -> None:
        """Counts a batch.

        Args:
            version: The version that has computed it.
            known: The ids that it knows.
            inputs: By name, arrays `(rows, ...)`.
            outputs: The same.
            seconds: How long it took.
        """
        rows = len(next(iter(inputs.values()))) if inputs else 0
        self._batch_rows.labels(version).observe(rows)
        self._batch_seconds.labels(version).observe(seconds)
        self._outputs.add(version, inputs, outputs)
        for name, counts in known.count(inputs).items():
            for state, count in zip(_ID_STATES, counts, strict=True):
                self._ids.labels(name, state, version).inc(count)

    def exposition(self) -> bytes:
        """Returns all metrics in Prometheus's text format 0.0.4."""
        return generate_latest(self._registry)


class _Sums:
    """Sums over rows, at the time they are asked for."""

    def __init__(self, statistics: OutputStatistics) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        predictions = SummaryMetricFamily(
            "recsys_prediction",
            "Predictions by output; sum / count is their mean",
            labels=("version", "output", "column"),
        )
        for key, mean in self._statistics.items("predictions"):
            predictions.add_metric(key, mean.rows, mean.total)
        yield predictions
        experts = SummaryMetricFamily(
            "recsys_experts_per_row",
            "Experts with weight by task, where the model tells them; task is "
            "empty for the budgets of rows",
            labels=("version", "task"),
        )
        for key, mean in self._statistics.items("experts"):
            experts.add_metric(key, mean.rows, mean.total)
        yield experts


class _Versions:
    """The versions of the model, at the time they are asked for."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        versions = GaugeMetricFamily(
            "recsys_version",
            "1 for the state that a version is in",
            labels=("version", "state"),
        )
        for item in status["model_version_status"]:
            versions.add_metric((item["version"], item["state"]), 1.0)
        yield versions
        labels = GaugeMetricFamily(
            "recsys_version_label",
            "1 for the version that a label is at",
            labels=("label", "version"),
        )
        for pair in status.get("version_labels", {}).items():
            labels.add_metric(pair, 1.0)
        yield labels
        shedding = status.get("shedding")
        if shedding is None:
            return
        cap = shedding["budget_cap"]
        yield GaugeMetricFamily(
            "recsys_budget_cap",
            "Most experts per row under load; infinite without a cap",
            value=cap if cap is not None and isfinite(cap) else float("inf"),
        )
