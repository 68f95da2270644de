from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from recsys.serving.batcher import Batcher
from recsys.serving.runner import load
from recsys.serving.serve_options import ServeOptions
from recsys.serving.tensor_spec import Signature


@dataclass(frozen=True)
class LoadedModel:
    """A version of a model, ready to answer.

    Attributes:
        signatures: What it can be asked, by name.
        batcher: Whom to ask.
    """

    signatures: dict[str, Signature]
    batcher: Batcher


def model_loader(
    options: ServeOptions, executor: Executor
) -> Callable[[Path], LoadedModel]:
    """Returns what loads the model in a folder.

    Args:
        options: How it is served.
        executor: Where it is computed.
    """

    def load_model(folder: Path) -> LoadedModel:
        runner = load(folder, options.index)
        batcher = Batcher(
            runner.run,
            executor,
            options.max_batch_rows,
            options.batch_wait_ms / 1000,
            options.max_request_values,
        )
        return LoadedModel(runner.signatures, batcher)

    return load_model
