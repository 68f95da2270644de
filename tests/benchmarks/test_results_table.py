from collections.abc import Callable
from types import ModuleType

import pandas as pd


def test_by_hand(load_script: Callable[[str], ModuleType]) -> None:
    frame = pd.DataFrame(
        {"tasks": [16, 128], "gate": ["a", "b"], "mse": [0.123456, None]}
    )
    assert load_script("results_table").results_table(frame).splitlines() == [
        "| tasks | gate | mse |",
        "|---|---|---|",
        "| 16 | a | 0.1235 |",
        "| 128 | b | - |",
    ]
