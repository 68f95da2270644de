import math

import pandas as pd

from recsys.files.json_files import JsonMapping

UNTIL_BINARY = "steps_until_binary"


def until_binary(history: pd.DataFrame) -> dict[str, int | None]:
    """Returns what a history says of the way to binary selectors.

    `StepsUntilBinary` says how fine the steps are.

    Args:
        history: What `read_history` returns.

    Returns:
        "training_steps" and "steps_until_binary", `None` where a selector was
        not binary in the end; nothing of gates without selectors.

    Example:
    >>> epochs = {"steps": [10.0, 20.0], "steps_until_binary": [None, 15.0]}
    >>> until_binary(pd.DataFrame(epochs))
    {'training_steps': 20, 'steps_until_binary': 15}
    """
    if "steps" not in history:
        return {}
    last = history.iloc[-1]
    since = last.get(UNTIL_BINARY, math.nan)
    return {
        "training_steps": int(last["steps"]),
        UNTIL_BINARY: None if math.isnan(since) else int(since),
    }


def percent_until_binary(metrics: JsonMapping) -> dict[str, float | None]:
    """Returns the share of the training steps until all selectors were binary.

    Args:
        metrics: Those of a split, in `metrics.json`.

    Returns:
        Percent by the name of a column, `None` where a selector was not
        binary in the end; nothing of gates without selectors.

    Example:
    >>> percent_until_binary({"training_steps": 20, "steps_until_binary": 15})
    {'steps until binary (%)': 75.0}
    """
    if "training_steps" not in metrics:
        return {}
    until = metrics[UNTIL_BINARY]
    share = None if until is None else 100 * until / metrics["training_steps"]
    return {"steps until binary (%)": share}
