from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf
from pathlib import Path

from recsys.errors import FileError
from recsys.files.json_files import JsonObject
from recsys.serving.batcher import Batcher
from recsys.serving.budget_shedding import BudgetShedding
from recsys.serving.monitoring.observed_runner import ObservedRunner
from recsys.serving.monitoring.request_columns import RequestColumns
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.page_facts import read_page_facts
from recsys.serving.predict_request import BUDGET
from recsys.serving.promotion import check_promoted
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.runner import load
from recsys.serving.serve_options import ServeOptions
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
    own = inputs[BUDGET].default
    return BudgetShedding(
        options.shed_wait_ms / 1000,
        options.max_concurrency,
        options.shed_floor,
        # The largest budget that a gate trains for, by default.
        inf if own is None else max(4 * float(own[0]), options.shed_floor),
    )
