import pytest

from recsys.tuning.search import role

pytestmark = pytest.mark.once("torch")

NAMES = ("TUNER_ID", "ORACLE_IP", "ORACLE_PORT")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((None, None, None), "alone"),
        (("tuner0", None, None), "alone"),
        (("chief", "127.0.0.1", "8000"), "chief"),
        (("tuner0", "127.0.0.1", "8000"), "worker"),
    ],
)
def test_role(
    values: tuple[str | None, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_environment(monkeypatch, values)
    assert role() == expected


def test_variable_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_environment(monkeypatch, ("chief", "127.0.0.1", None))
    with pytest.raises(ValueError, match="KERASTUNER_ORACLE_PORT must be set"):
        role()


def set_environment(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str | None, ...]
) -> None:
    for name, value in zip(NAMES, values, strict=True):
        if value is None:
            monkeypatch.delenv(f"KERASTUNER_{name}", raising=False)
        else:
            monkeypatch.setenv(f"KERASTUNER_{name}", value)
