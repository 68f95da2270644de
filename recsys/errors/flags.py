def check_flag_with(
    name: str, value: bool, flag: str, flag_value: bool
) -> None:
    """Checks that a flag is not set without another one that it needs.

    Args:
        name: The flag that is needed.
        value: What it was given.
        flag: The flag that needs it.
        flag_value: What that was given.

    Raises:
        ValueError: Only the second is set.

    Example:
    >>> check_flag_with("retrieval", False, "tower", True)
    Traceback (most recent call last):
    ...
    ValueError: `retrieval` must be True with tower. Received: retrieval=False
    """
    if flag_value and not value:
        raise ValueError(
            f"`{name}` must be True with {flag}. Received: {name}={value}"
        )
