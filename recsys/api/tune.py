from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_tuner.engine.base_tuner import BaseTuner

from recsys.backend import check_backend
from recsys.config.train_config import TrainConfig
from recsys.data import Schema
from recsys.data import load
from recsys.data.load import AnyDataset
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.bounds import check_count
from recsys.errors.choices import check_choice
from recsys.errors.reading import naming
from recsys.errors.shown import printable
from recsys.files.atomic import remove_all_unfinished
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer
from recsys.processes.training_processes import TrainingProcesses
from recsys.terminal.progress import announce
from recsys.training.resolve_config import check_config
from recsys.training.resolve_config import resolve_config
from recsys.training.resolve_with_data import check_trains_tasks
from recsys.tuning.oracles import ResumableOracle
from recsys.tuning.oracles import create_oracle
from recsys.tuning.parse_space import parse_space
from recsys.tuning.published_space import published_space
from recsys.tuning.search import role
from recsys.tuning.search import search
from recsys.tuning.space import Space
from recsys.tuning.sweep import Plan
from recsys.tuning.sweep import Sweep
from recsys.tuning.sweep_progress import SweepProgress
from recsys.tuning.trial_runner import TrialRunner
from recsys.tuning.yaml_file import read_yaml

Search = Callable[[ResumableOracle, TrialRunner, int], None]


def tune(
    fields: JsonMapping,
    trials: int = 20,
    tuner: str = "random",
    space: JsonMapping | str | Path | None = None,
    workers: int = 1,
    resume: bool = False,
    paper: str | None = None,
    engine: str = "keras-tuner",
) -> list[JsonObject]:
    """Searches for the configuration with the lowest validation loss.

    KerasTuner draws the trials; each is trained in a process beside this one,
    with nothing left of the trials before, and ends as it would alone. The
    folder `fields["out"]` gets `trials.jsonl`, a line for each trial that has
    ended, and the trials' run folders in `trials/`. A trial that
    fails is recorded, and the sweep goes on. A sweep that was interrupted, by
    Ctrl-C or otherwise, goes on with `resume`, down to the epoch.

    With KerasTuner's environment variables set, the sweep is shared by
    processes on several machines: see `docs/tuning.md`.

    Args:
        fields: The fields of `TrainConfig` that all trials share, by name;
            "data" and "out", the folder of the sweep, are needed. What is
            given here is not searched. "seed" also says which trials are
            drawn.
        trials: How many trials there are at most. Defaults to 20.
        tuner: What draws the trials: "random", "bayesian" or "hyperband",
            which takes the epochs for the most that a trial is given.
            Defaults to "random".
        space: What is searched: a mapping as `recsys.tuning.parse_space`
            reads it, or a YAML file with one. Unless given, what the papers
            have for this gate and data set, or a small space of
            `recsys.tuning.published_space` for data that are in no paper; with
            `resume`, what the sweep was started with.
        workers: How many trials are trained at a time, each with an equal
            share of the cores. Defaults to 1.
        resume: Boolean, whether to go on with the sweep in `out`, which must
            have been started with the same arguments. Defaults to `False`.
        paper: "comet", "moesart" or "dselect-k", whose published space is
            searched instead of a `space`. Unless given, that in which
            `recsys.tuning.published_space` finds the data set first.
        engine: What runs the trials: "keras-tuner", here or in its workers,
            or "ray", Ray Tune on the cluster that the environment variable
            RAY_ADDRESS names, or else on this machine. They are the same
            trials in the same files, and either goes on with a sweep of the
            other. Defaults to "keras-tuner".

    Returns:
        The content of `trials.jsonl`.

    Raises:
        DataError: The data are missing or wrong.
        RunError: The folder is not empty, or there is no sweep to resume, or
            another process leads one there.
        ValueError, TypeError: An argument, a field or the space is wrong, or
            retrieval would be trained without the tasks, whose loss decides.
        ModuleNotFoundError: `engine="ray"` without the extra `ray`.
        KeyboardInterrupt: After Ctrl-C; the sweep can be resumed.
    """
    for name, number in (("trials", trials), ("workers", workers)):
        check_count(name, number)
    run_trials = _search_of(engine)
    # The space may say how many experts there are.
    base = TrainConfig.from_mapping({"num_experts": MOST_EXPERTS, **fields})
    if base.warm_start is not None:
        raise ValueError(
            "`warm_start` must be left out: trials start from new weights. "
            f"Received: warm_start={base.warm_start!r}"
        )
    check_backend(base.backend)
    announce(f"Reading the data in {printable(base.data)}")
    dataset = load(base.data)
    schema = dataset.schema
    resolved = resolve_config(base, schema)
    shared = {name: getattr(base, name) for name in fields if name != "out"}
    shared |= {"data": resolved.data, "backend": resolved.backend}
    sweep = Sweep(Path(base.out).resolve())
    gate = {"gate": resolved.gate, "gate_options": resolved.gate_options}
    content = _content(
        space, paper, sweep if resume else None, schema, shared | gate
    )
    with naming(space if isinstance(space, str | Path) else None):
        searched = parse_space(content, shared)
        _check(searched, dataset, tuner, trials)
    epochs = searched.fields({}).get("epochs", resolved.epochs)
    oracle = create_oracle(tuner, searched, trials, epochs, base.seed)
    plan = Plan(tuner, trials, shared, content)
    with TrainingProcesses(workers) as processes:
        runner = TrialRunner(sweep, searched, processes)
        if role() == "worker":
            _work_for_chief(oracle, runner, plan, workers)
        else:
            with sole_writer(base.out):
                check_no_links(base.out)
                _lead(oracle, runner, plan, workers, resume, run_trials)
    return sweep.log.read()


def _search_of(engine: str) -> Search:
    """Returns the engine of the trials.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: There is no such engine, or KerasTuner's environment
            variables name another.
    """
    check_choice("engine", engine, ("keras-tuner", "ray"))
    if engine == "keras-tuner":
        return search
    if role() != "alone":
        raise ValueError(
            "`engine` must be 'keras-tuner' for its chief and workers. "
            f"Received: engine={engine!r} in its {role()}"
        )
    from recsys.tuning.ray_search import search_on_ray

    return search_on_ray


def _content(
    space: JsonMapping | str | Path | None,
    paper: str | None,
    started: Sweep | None,
    schema: Schema,
    fields: JsonMapping,
) -> Any:
    """The search space: given, or a started sweep's, or a paper's."""
    if space is not None and paper is not None:
        raise ValueError(
            "`space` or `paper` must be given, not both. Received: "
            f"paper={paper!r} and a space"
        )
    if isinstance(space, str | Path):
        return read_yaml(Path(space))
    if space is not None:
        return space
    if started is not None and paper is None and started.plan.is_file():
        # What is published here may have been corrected since.
        return started.read_plan().space
    return published_space(fields["gate"], schema.name, paper, fields)


def _check(space: Space, dataset: AnyDataset, tuner: str, trials: int) -> None:
    """Checks that there is something to search, and that it can be trained."""
    # Hyperband draws nothing from a space of one point.
    if not space.searched and (trials > 1 or tuner == "hyperband"):
        raise ValueError(
            "expected a field to search, or one trial. Received: only fields "
            "that are given or have one choice, "
            f"{list(space.fields({}))}"
        )
    if tuner == "hyperband" and "epochs" in space.searched:
        raise ValueError(
            "`epochs` must not be searched by hyperband, which sets them "
            f"itself. Received: {space.searched['epochs']}"
        )
    for fields in space.examples():
        config = TrainConfig.from_mapping({**fields, "out": "."})
        check_config(config, dataset.schema)
        check_trains_tasks(config, dataset)


def _lead(
    oracle: ResumableOracle,
    runner: TrialRunner,
    plan: Plan,
    workers: int,
    resume: bool,
    run_trials: Search,
) -> None:
    """Draws the trials; runs them as well, unless there are workers for it."""
    remove_all_unfinished(runner.sweep.folder)
    if resume:
        runner.sweep.check_same(plan)
    else:
        runner.sweep.start(plan)
    tuner = _tuner(oracle, runner.sweep)
    if runner.sweep.state.is_file():
        oracle.reload()
        _restore_log(oracle, runner)
    announce(f"Training up to {plan.trials:,} trials, {workers} at a time")
    with SweepProgress(plan.trials, oracle.losses) as progress:
        oracle.on_trial_end = progress.trial_ended
        if role() == "chief":
            tuner.search()
        else:
            run_trials(oracle, runner, workers)


def _restore_log(oracle: ResumableOracle, runner: TrialRunner) -> None:
    """Records again the trials that have ended, but are not in the log.

    The oracle would not draw them again. A finished run is not trained again:
    its metrics are read.
    """
    known = {record["trial"] for record in runner.sweep.log.read()}
    for name in oracle.end_order:
        if name not in known:
            runner.run(name, oracle.trials[name].hyperparameters.values)


def _work_for_chief(
    oracle: ResumableOracle, runner: TrialRunner, plan: Plan, workers: int
) -> None:
    """Runs trials that a chief in another process draws."""
    runner.sweep.wait_for_start()
    tuner = _tuner(oracle, runner.sweep)
    tuner.oracle.get_space()  # Waits for the chief.
    runner.sweep.check_same(plan)
    with sole_writer(runner.sweep.tuner / tuner.tuner_id):
        search(tuner.oracle, runner, workers, tuner.tuner_id)


def _tuner(oracle: ResumableOracle, sweep: Sweep) -> BaseTuner:
    """KerasTuner's tuner, with the chief's oracle instead in a worker."""
    return BaseTuner(
        oracle,
        directory=str(sweep.tuner.parent),
        project_name=sweep.tuner.name,
    )
