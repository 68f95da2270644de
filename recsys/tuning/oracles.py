"""KerasTuner's oracles, which draw the trials, made fit to be resumed."""

import warnings
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Self

import keras_tuner
import numpy as np
from keras_tuner.engine.trial import Trial
from pydantic import BaseModel
from pydantic import FiniteFloat
from pydantic import StrictInt
from pydantic import model_validator
from sklearn.exceptions import ConvergenceWarning

from recsys.errors import FileError
from recsys.errors.choices import check_choice
from recsys.errors.reading import reading
from recsys.errors.shapes import check_shape
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.private_names import OracleInOneFile
from recsys.private_names import seed_bayesian
from recsys.tuning.space import Space

OBJECTIVE = keras_tuner.Objective("val_loss", direction="min")


class _Drawn(BaseModel):
    values: JsonObject


class _Trial(BaseModel):
    trial_id: str
    score: FiniteFloat | None
    hyperparameters: _Drawn


class _State(BaseModel):
    """Parts of a saved state that KerasTuner uses later without a check."""

    trials: list[_Trial]
    ongoing_trials: dict[str, str]
    start_order: list[str]
    end_order: list[str]
    retry_queue: list[str]
    run_times: dict[str, StrictInt]
    seed: StrictInt
    seed_state: StrictInt
    tried_so_far: list[str]
    id_to_hash: dict[str, str | None]

    @model_validator(mode="after")
    def _check_trials(self) -> Self:
        known = {trial.trial_id for trial in self.trials}
        orders = self.start_order, self.end_order, self.retry_queue
        for name in [*chain(*orders), *self.ongoing_trials.values()]:
            if name not in known:
                raise ValueError(
                    f"expected a trial of each name. Received: none of {name!r}"
                )
        return self


class ResumableOracle(OracleInOneFile, keras_tuner.Oracle):
    """Keeps all that an oracle knows in one file, written whole or not at all.

    KerasTuner writes a file for each trial and one for the rest. A process
    that is killed between them, or within one, leaves a state in which a
    trial is lost, or which cannot be read.

    Attributes:
        space: What the trials are drawn from.
        on_trial_end: Called with the name and the loss of each trial that has
            ended; the loss is `None` if it has failed.
    """

    space: Space
    on_trial_end: Callable[[str, float | None], None] | None = None

    @property
    def losses(self) -> list[float | None]:
        """The losses of the trials that have ended."""
        return [self.trials[name].score for name in self.end_order]

    def get_state(self) -> JsonObject:
        trials = [trial.get_state() for trial in self.trials.values()]
        return {**super().get_state(), "trials": trials}

    def set_state(self, state: JsonObject) -> None:
        trials = map(Trial.from_state, state["trials"])
        self.trials = {trial.trial_id: trial for trial in trials}
        super().set_state(state)

    def reload(self) -> None:
        """Brings the oracle to where it was when it was saved.

        Raises:
            FileError: The file is broken, or holds what the space does not.
        """
        file = self.state_file
        with reading(file, "what `recsys tune` has saved of a sweep"):
            state = check_shape(read_json(file), _State, file)
            self._check_drawn(state, file)
            super().reload()
            # KerasTuner takes the last trial of a worker for unfinished.
            self.do_not_retry(self.end_order)
            try:
                self.space.check_declared(
                    [
                        dimension.get_config()
                        for dimension in self.hyperparameters.space
                    ]
                )
            except ValueError as error:
                raise FileError(f"{file}: {error}") from None

    def _check_drawn(self, state: _State, file: Path) -> None:
        for trial in state.trials:
            drawn = trial.hyperparameters.values
            if not drawn:  # It waits for others.
                continue
            try:
                self.space.decode(drawn)
            except ValueError as error:
                place = f"{file}, trial {shown(trial.trial_id)}"
                raise FileError(f"{place}: {error}") from None

    def save(self) -> None:
        write_json(self.state_file, self.get_state())

    @keras_tuner.synchronized  # type: ignore[untyped-decorator]
    def end_trial(self, trial: Trial) -> None:
        super().end_trial(trial)
        if self.on_trial_end is not None:
            score = self.trials[trial.trial_id].score
            self.on_trial_end(trial.trial_id, score)


class RandomOracle(ResumableOracle, keras_tuner.oracles.RandomSearchOracle):
    """Draws each trial at random."""


class BayesianOracle(
    ResumableOracle, keras_tuner.oracles.BayesianOptimizationOracle
):
    """Draws trials where a Gaussian process expects low losses."""

    def populate_space(self, trial_id: str) -> JsonObject:
        # The state of this generator would be lost in an interruption.
        seed_bayesian(self, [self.seed, int(trial_id)])
        with warnings.catch_warnings():
            # Few trials do not determine the process's length scale.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().populate_space(trial_id)


class HyperbandOracle(ResumableOracle, keras_tuner.oracles.HyperbandOracle):
    """Gives the best trials of few epochs more of them."""


TUNERS: dict[str, type[ResumableOracle]] = {
    "random": RandomOracle,
    "bayesian": BayesianOracle,
    "hyperband": HyperbandOracle,
}


def create_oracle(
    tuner: str, space: Space, trials: int, epochs: int, seed: int
) -> ResumableOracle:
    """Creates the oracle that draws the trials of a sweep.

    Args:
        tuner: "random", "bayesian" or "hyperband".
        space: What is searched.
        trials: How many trials there are at most.
        epochs: Most epochs that Hyperband gives to a trial.
        seed: Which trials are drawn.

    Raises:
        ValueError: There is no such tuner.
    """
    check_choice("tuner", tuner, TUNERS)
    options: JsonObject = {}
    if tuner == "hyperband":
        # Again and again, until there are enough trials.
        options = {"max_epochs": epochs, "hyperband_iterations": trials}
    oracle = TUNERS[tuner](
        objective=OBJECTIVE,
        hyperparameters=space.hyperparameters(),
        tune_new_entries=False,
        allow_new_entries=False,
        seed=_seed(seed),
        # A sweep goes on, however many of its trials fail.
        max_consecutive_failed_trials=trials + 1,
        **options,
    )
    oracle.space = space
    oracle.max_trials = trials
    oracle.verbose = 0
    return oracle


def _seed(seed: int) -> int:
    """A seed that KerasTuner can use.

    It takes 0 for none, and of neighbouring seeds the second draws what the
    first does, one value later.
    """
    return 1 + int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
