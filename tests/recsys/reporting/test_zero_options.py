from pathlib import Path

import pytest

from recsys.reporting.trained import read_trained
from recsys.reporting.zero_options import zero_options
from tests.recsys.reporting.run_folders import write_sweep
from tests.recsys.reporting.test_best_trials import with_drawn

pytestmark = pytest.mark.once("torch")

WEIGHT = "gate_options.trimmed_lasso_weight"


def test_the_best_trial_on_either_side_by_validation_loss(
    tmp_path: Path,
) -> None:
    losses = [(0.5, 0.1), (0.4, 0.45), (0.3, 0.35), (0.6, 0.2), (0.35, 0.1)]
    sweep = write_sweep(tmp_path / "sweep", "moesart", losses)
    weights = [0.0, 0, 0.01, 10.0, 1.0]
    with_drawn(sweep, [{WEIGHT: weight, "k": 2} for weight in weights])
    section = zero_options(read_trained([sweep]))
    assert section is not None
    (table,) = section.tables
    assert table.header[1:4] == ["option", "trials", "best trial"]
    assert table.rows == [
        [
            *("moesart", "trimmed_lasso_weight = 0", "2", "1"),
            *("40.00", "45.00"),
        ],
        [
            *("moesart", "trimmed_lasso_weight > 0", "3", "2"),
            *("30.00", "35.00"),
        ],
    ]


def test_an_option_that_is_never_or_always_zero_is_not_split(
    tmp_path: Path,
) -> None:
    sweep = write_sweep(tmp_path / "sweep", "moesart", [(0.5, 0.5)] * 2)
    flag = "gate_options.replacement"
    drawn = [{WEIGHT: 0.1, flag: False, "k": 0}, {WEIGHT: 1, flag: True}]
    with_drawn(sweep, [drawn[0] | {"gate_options.other": 0}, drawn[1]])
    assert zero_options(read_trained([sweep])) is None
