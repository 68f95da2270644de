import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf
from pathlib import Path

from recsys.errors import FileError
from recsys.files.json_files import JsonObject
from recsys.serving.batcher import Batcher
from recsys.serving.budget_range import BUDGET
from recsys.serving.budget_shedding import BudgetShedding
from recsys.serving.monitoring.known_ids import KnownIds
from recsys.serving.monitoring.request_columns import RequestColumns
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.page_facts import read_page_facts
from recsys.serving.promotion import check_promoted
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.runner import load
from recsys.serving.serve_options import ServeOptions
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Runner
from recsys.serving.tensor_spec import Signature


@dataclass(frozen=True)
class LoadedModel:
    """A version of a model, ready to answer.

    Attributes:
        signatures: What it can be asked, by name.
        batcher: Whom to ask.
        columns: What names the columns of logged requests.
        facts: What `recsys.serving.page_facts` reads of it.
    """

    signatures: dict[str, Signature]
    batcher: Batcher
    columns: RequestColumns
    facts: JsonObject


def model_loader(
    options: ServeOptions, executor: Executor, metrics: ServerMetrics
) -> Callable[[Path], LoadedModel]:
    """Returns what loads the model in a folder.

    Args:
        options: How it is served.
        executor: Where it is computed.
        metrics: Counts its batches.

    It raises a `FileError` for a model that cannot be served so.
    """

    def load_model(folder: Path) -> LoadedModel:
        if options.promoted_only:
            check_promoted(folder)
        runner = ObservedRunner(load(folder, options.index), folder, metrics)
        batcher = Batcher(
            runner.run,
            executor,
            options.max_batch_rows,
            options.batch_wait_ms / 1000,
            options.max_request_values,
            _shedding(runner, folder, options) if options.shed else None,
        )
        inputs = runner.signatures[DEFAULT_SIGNATURE].inputs
        columns = RequestColumns.read(folder, inputs)
        facts = read_page_facts(folder, not options.is_public)
        return LoadedModel(runner.signatures, batcher, columns, facts)

    return load_model


def _shedding(
    runner: Runner, folder: Path, options: ServeOptions
) -> BudgetShedding:
    inputs = runner.signatures[DEFAULT_SIGNATURE].inputs
    if BUDGET not in inputs:
        raise FileError.at(
            folder,
            f"a model with the input {BUDGET!r}, of a run with `--gate "
            "budget`, which `--shed` lowers",
            f"the inputs {sorted(inputs)}",
        )
    default = inputs[BUDGET].default
    return BudgetShedding(
        options.shed_wait_ms / 1000,
        options.max_concurrency,
        options.shed_floor,
        # Half of a larger one seldom leaves a batch sparse.
        inf
        if default is None
        else max(4 * float(default[0]), options.shed_floor),
    )


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
