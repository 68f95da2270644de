import warnings


def warn_renamed(old: str, new: str) -> None:
    """Warns that an old name, which works for one more release, has been used.

    Args:
        old: The old name, as its user writes it.
        new: The new one.

    Example:
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("`--old`", "`--new`")
    >>> print(caught[0].message)
    `--old` is deprecated, and goes with the next release: use `--new`
    """
    # A FutureWarning is shown to users, not to developers alone.
    warnings.warn(
        f"{old} is deprecated, and goes with the next release: use {new}",
        FutureWarning,
        stacklevel=3,
    )
