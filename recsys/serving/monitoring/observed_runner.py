import time
from pathlib import Path

from recsys.serving.monitoring.known_ids import KnownIds
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Runner


class ObservedRunner:
    """A loaded model whose batches are counted.

    Args:
        runner: The model.
        folder: Where it was loaded from: the name of a version, or the
            version 1.
        metrics: Counts its batches.
    """

    def __init__(
        self, runner: Runner, folder: Path, metrics: ServerMetrics
    ) -> None:
        self.signatures = runner.signatures
        self._runner = runner
        self._version = folder.name if folder.name.isdigit() else "1"
        self._metrics = metrics
        self._known = KnownIds.read(
            folder, runner.signatures[DEFAULT_SIGNATURE].inputs
        )

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        start = time.perf_counter()
        outputs = self._runner.run(signature, inputs)
        seconds = time.perf_counter() - start
        self._metrics.computed(
            self._version, self._known, inputs, outputs, seconds
        )
        return outputs
