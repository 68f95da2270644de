from pathlib import Path

import pandas as pd

from recsys.runs.run import Run


def read_history(run: Path | Run) -> pd.DataFrame:
    """The history of a run, but for the time that it took."""
    folder = run if isinstance(run, Path) else run.folder
    return pd.read_csv(folder / "history.csv").drop(columns="seconds")
