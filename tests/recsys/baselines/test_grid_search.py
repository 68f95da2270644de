import pytest

from recsys.baselines.grid_search import search
from recsys.baselines.option import Option
from recsys.baselines.option import checked_options

KNOWN = {
    "lambda": Option((1.0, 10.0, 100.0), 10.0),
    "factors": Option((8, 16), 8, 64),
}


def test_one_option_after_the_other() -> None:
    fitted = []

    def fit(options: dict[str, float]) -> dict[str, float]:
        fitted.append(dict(options))
        return options

    def score(options: dict[str, float]) -> float:
        return -abs(options["lambda"] - 100) - abs(options["factors"] - 16)

    model, chosen, trials = search(KNOWN, {}, fit, score)
    assert model == chosen == {"lambda": 100.0, "factors": 16}
    assert [list(options.values()) for options, _, _ in trials] == [
        [1.0, 8],
        [10.0, 8],
        [100.0, 8],
        [100.0, 16],
    ]
    assert len(fitted) == 4  # None twice.


def test_what_is_given_is_not_searched() -> None:
    given = {"lambda": 3.0, "factors": 8}
    _, chosen, trials = search(KNOWN, given, dict, lambda model: 0.0)
    assert chosen == given
    assert [trial[:2] for trial in trials] == [(given, 0.0)]


def test_the_first_of_equal_scores_counts() -> None:
    _, chosen, _ = search(KNOWN, {}, dict, lambda model: 0.0)
    assert chosen == {"lambda": 1.0, "factors": 8}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lamda": "1"}, r"among lambda, factors .*Received: 'lamda'"),
        ({"lambda": "0"}, r"a number above 0.*Received: lambda='0'"),
        ({"lambda": "nan"}, r"Received: lambda='nan'"),
        ({"factors": "65"}, r"an integer above 0 and at most 64.*'65'"),
        ({"factors": 1.5}, r"Received: factors=1.5"),
        ({"factors": True}, r"Received: factors=True"),
    ],
)
def test_options_that_cannot_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_options("ease", KNOWN, given)
