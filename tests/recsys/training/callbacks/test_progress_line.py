import io

import keras
import pytest

from recsys.training.callbacks.progress_line import ProgressLine

pytestmark = pytest.mark.once("torch")

LOGS = {
    "click_loss": 0.7,
    "loss": 1.23456,
    "click_experts_per_example": 2.5,
    "experts_per_example": 2.25,
    "val_loss": 0.5,
    "val_click_loss": 0.625,
    "val_click_auc": 0.75,
    "val_stars_rmse": 1.5,
    "steps": 6,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(file: io.StringIO) -> ProgressLine:
    progress = ProgressLine(["click", "stars"], file)
    progress.set_params({"epochs": 20, "steps": 6, "verbose": 0})
    progress.on_epoch_begin(2)
    return progress


def test_key_figures_come_first() -> None:
    file = io.StringIO()
    progress = line(file)
    progress.on_train_batch_end(0, {"loss": 1.0})  # No terminal counts steps.
    progress.on_epoch_end(2, LOGS)
    assert file.getvalue() == (
        "Epoch 3/20  0 s  loss 1.235  val_loss 0.5  experts 2.25  "
        "val_click_auc 0.75\n"
    )


@pytest.mark.parametrize("columns", [20, 40, 80, 160])
def test_a_line_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for file in (io.StringIO(), Terminal()):
        progress = line(file)
        progress.on_epoch_end(2, {"val_click_accuracy": 0.5} | LOGS)
        (text,) = file.getvalue().strip("\r").splitlines()
        assert len(text) < max(columns, 20)
        assert text.startswith("Epoch 3/20  0 s")
        # Figures are whole, or not there.
        assert ("val_stars_rmse 1.5" in text) == (columns == 160)


def test_a_terminal_counts_the_steps() -> None:
    file = Terminal()
    progress = line(file)
    progress.on_train_batch_end(0, {"loss": 1.0})
    progress.on_train_batch_end(1, {"loss": 0.9})  # Too soon to be shown.
    progress.on_epoch_end(2, LOGS)
    _, step, end = file.getvalue().split("\r")
    assert step.rstrip() == "Epoch 3/20  0 s  step 1/6  loss 1"
    # It covers what stood there.
    assert len(step) == 79
    assert end.startswith("Epoch 3/20  0 s  loss 1.235  val_loss 0.5 ")
    assert end.endswith("\n")


def test_no_step_is_known_before_the_end_of_a_stream() -> None:
    file = Terminal()
    progress = line(file)
    progress.set_params({"epochs": 20, "steps": None, "verbose": 0})
    progress.on_train_batch_end(4, {"loss": 1.0})
    assert "step 5  loss 1" in file.getvalue()


def test_it_is_no_bar_of_keras() -> None:
    """Keras adds its own where `verbose` is not 0."""
    assert not issubclass(ProgressLine, keras.callbacks.ProgbarLogger)
