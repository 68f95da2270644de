import os

_ID, _ADDRESS, _PORT = (
    "KERASTUNER_TUNER_ID",
    "KERASTUNER_ORACLE_IP",
    "KERASTUNER_ORACLE_PORT",
)


def role() -> str:
    """Returns what KerasTuner's environment variables make of this process.

    Returns:
        "alone" without them, "chief" (draws the trials of a sweep, and trains
        none), or "worker" (trains those that the chief draws).

    Raises:
        ValueError: Only some of them are set.
    """
    if _ADDRESS not in os.environ:
        return "alone"
    for name in (_ID, _PORT):
        if name not in os.environ:
            raise ValueError(
                f"the environment variable {name} must be set where {_ADDRESS} "
                f"is. Received: {_ADDRESS}={os.environ[_ADDRESS]}"
            )
    return "chief" if "chief" in os.environ[_ID] else "worker"
