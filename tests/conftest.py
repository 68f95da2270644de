import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from hypothesis import settings
from matplotlib.figure import Figure

from tests.blank_figures import save_blank
from tests.examples import Drawn
from tests.made_once import made_once
from tests.once import WITH_ALL
from tests.once import left_out
from tests.once import longest_files_first
from tests.once import name_in_report
from tests.once import once_on
from tests.rare_collection import LastCollection
from tests.rare_collection import collect_rarely
from tests.rare_collection import hide_what_stays
from tests.warm_processes import WarmProcess
from tests.warm_python import WarmPython

# A busy machine is no error.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")

# Gates and plans that do not keep what they promise raise errors here.
os.environ.setdefault("KERAS_MOE_CHECK_VALUES", "1")

# Threads that wait for each other over batches of a few rows take more than
# half of what a training takes on PyTorch, which reads this when it starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Numba, which UMAP uses, sets the number to its own when it starts: after it,
# every training took five times as long on PyTorch.
os.environ.setdefault("NUMBA_NUM_THREADS", os.environ["OMP_NUM_THREADS"])

# TensorFlow's threads wait for longer than an operation on a few rows takes. It
# reads this when it starts.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# Most programs run once here: optimising them takes longer than they do, and
# so do the emitters of fused operations, and so does splitting a program into
# modules to compile side by side. XLA reads this when it compiles for the first
# time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)

collect_rarely()
LastCollection.watch()

pytest.register_assert_rewrite(
    "tests.gradients", "tests.keras_moe.layers.layer_test"
)

Arrays = dict[str, np.ndarray]

ORACLES = Path(__file__).parent / "oracles"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--once",
        action="store_true",
        help="leave out tests that another backend than this one is to run",
    )
    parser.addoption(
        "--left-out",
        type=Path,
        metavar="FILE",
        help="list the tests that `--once` leaves out in this file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Lets `--once` try less where each example may be compiled anew."""
    # What starts the processes of pytest-xdist needs no Keras.
    starts = config.getoption("numprocesses", None)
    if config.getoption("--once") and not (starts and _worker() is None):
        Drawn.few = _backend() in ("tensorflow", "jax")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """With `--once`, leaves out what others run; long files come first."""
    if not config.getoption("--once"):
        return
    elsewhere = left_out(items, _backend())
    config.hook.pytest_deselected(items=list(elsewhere))
    file = config.getoption("--left-out")
    # Each of several processes leaves out the same.
    if file and _worker() in (None, "gw0"):
        file.parent.mkdir(parents=True, exist_ok=True)
        names = sorted(name_in_report(item) for item in elsewhere)
        file.write_text("".join(f"{name}\n" for name in names))
    own = [item for item in items if item not in elsewhere]
    items[:] = longest_files_first(own, _backend())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes what CPU time a test takes, its fixtures and processes included.

    `--junitxml` writes it, and `tests/durations/` keeps it: on a busy machine
    seconds say nothing.
    """
    begun = _cpu_seconds()
    item.user_properties.append(("cpu_begun", begun))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    _Hidden.hide_if_much_is_new()
    begun = dict(item.user_properties)["cpu_begun"]
    assert isinstance(begun, float), "noted by the setup"
    seconds = _cpu_seconds() - begun
    item.user_properties[:] = [("cpu", round(seconds, 3))]
    return result


def _cpu_seconds() -> float:
    """Of this process and of those that it ran."""
    return sum(os.times()[:4]) + WarmProcess.seconds + WarmPython.seconds()


def pytest_sessionfinish() -> None:
    WarmProcess.end_source()


def pytest_collection_finish() -> None:
    _Hidden.hide()


class _Hidden:
    """What stays, which the garbage collector need not visit."""

    modules = 0

    @classmethod
    def hide(cls) -> None:
        """Hides modules and tests: it would visit millions of objects."""
        hide_what_stays()
        cls.modules = len(sys.modules)

    @classmethod
    def hide_if_much_is_new(cls) -> None:
        """Hides what a test has imported or compiled, where that is much."""
        is_slow = LastCollection.seconds > 0.1
        if is_slow or len(sys.modules) > cls.modules + 100:
            cls.hide()


def _worker() -> str | None:
    """Which process of pytest-xdist this is, if any."""
    return os.environ.get("PYTEST_XDIST_WORKER")


def _backend() -> str:
    """The backend of Keras; "none" where Keras cannot be imported."""
    if os.environ.get("KERAS_BACKEND") == "none":
        return "none"
    import keras

    return keras.backend.backend()


_DRAW = Figure.savefig


@pytest.fixture(scope="session", autouse=True)
def _figures_are_blank() -> Iterator[None]:
    """Saves blank figures: drawing them takes a third of many a training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save_blank)
        yield


@pytest.fixture(autouse=True)
def _figures_of_tests_that_draw(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws them on one backend: they are the same on each."""
    here = _backend() in (once_on(request.node), WITH_ALL)
    if here and request.node.get_closest_marker("draws"):
        monkeypatch.setattr(Figure, "savefig", _DRAW)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Makes every test repeatable on its own, in any order."""
    if _backend() == "none":
        random.seed(0)
        np.random.seed(0)
        return
    import keras

    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def _threads_are_kept() -> Iterator[None]:
    """No test makes PyTorch use more threads in those after it."""
    if _backend() != "torch":
        yield
        return
    import torch

    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


@pytest.fixture(scope="module")
def _programs() -> Any:
    """What `compiled_calls` keeps of a layer that tests of a file share."""
    return WeakKeyDictionary()


@pytest.fixture
def compiled_calls(
    request: pytest.FixtureRequest, _programs: Any
) -> Iterator[None]:
    """Compiles calls of layers on JAX, in `make test`; not in `make test-all`.

    The mark `eager` is for tests of what values or Python code decide.
    """
    eager = request.node.get_closest_marker("eager") is not None
    if eager or not Drawn.few or _backend() != "jax":
        yield
        return
    from tests.compiled_calls import compiled_calls

    with compiled_calls(_programs):
        yield


@pytest.fixture(scope="session")
def warm_program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path | None]:
    """Starts what `tests.warm_python` is about; not in `make test-all`."""
    if not request.config.getoption("--once") or sys.platform != "linux":
        return lambda backend: None
    folder = made_once(
        tmp_path_factory,
        "warm_python",
        # The address of a socket is short; those of pytest may not be.
        lambda link: link.symlink_to(mkdtemp(prefix="warm-")),
    )
    owner = os.getpid() if _worker() is None else os.getppid()
    return lambda name: WarmPython.started(folder.resolve(), name, owner)


@pytest.fixture
def warm_python(
    warm_program: Callable[[str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has processes start with Keras imported, in `make test`.

    They run in `sys.executable`, or as `torchrun` starts them.
    """
    _use_warm(warm_program(_backend()), monkeypatch)


@pytest.fixture
def warm_tensorflow(
    warm_program: Callable[[str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for processes of TensorFlow, which exports need."""
    _use_warm(warm_program("tensorflow"), monkeypatch)


@pytest.fixture
def warm_torch(
    warm_program: Callable[[str], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for processes of PyTorch, which read what JAX has written."""
    _use_warm(warm_program("torch"), monkeypatch)


@pytest.fixture
def warm_reader(request: pytest.FixtureRequest) -> None:
    """The same for those that read what this backend has written.

    TensorFlow starts Python itself.
    """
    reader = {"torch": "warm_tensorflow", "jax": "warm_torch"}.get(_backend())
    if reader is not None:
        request.getfixturevalue(reader)


def _use_warm(program: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if program is not None:
        monkeypatch.setattr(sys, "executable", str(program))
        monkeypatch.setenv("PYTHON_EXEC", str(program))


@pytest.fixture(scope="session")
def quick_python(warm_program: Callable[[str], Path | None]) -> Path | None:
    """In `make test`, an interpreter that trains instead of TensorFlow.

    It has PyTorch, which compiles nothing. `None` elsewhere: a test trains in
    its own process.
    """
    if not Drawn.few or _backend() != "tensorflow":
        return None
    return warm_program("torch") or Path(sys.executable)


@pytest.fixture(scope="session")
def train_quickly(
    quick_python: Path | None,
) -> Callable[[Mapping[str, Any]], object]:
    """Trains a run, for tests of what is made of it, whatever trained it."""
    if quick_python is None:
        from recsys import train

        return train
    code = "import json, sys, recsys; recsys.train(json.loads(sys.argv[1]))"

    def train_in_process(fields: Mapping[str, Any]) -> None:
        done = subprocess.run(
            [quick_python, "-c", code, json.dumps(fields)],
            env={**os.environ, "KERAS_BACKEND": "torch"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    return train_in_process


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Lets processes be interrupted, where the tests run in the background.

    A signal that is ignored there stays so in the processes that are started.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real downloads."""
    folder = os.environ.get("RECSYS_DATA")
    if not folder:
        pytest.skip("RECSYS_DATA names no folder with the real downloads")
    return Path(folder)


@pytest.fixture
def oracle() -> Callable[[str], Arrays]:
    """Loads a case: inputs, weights and outputs of a reference by name."""

    def load(name: str) -> Arrays:
        with np.load(ORACLES / f"{name}.npz") as case:
            return dict(case)

    return load
