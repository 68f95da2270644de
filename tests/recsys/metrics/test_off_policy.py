"""Values of policies, from planted logs whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.metrics.off_policy import LoggedChoices
from recsys.metrics.off_policy import policy_values
from recsys.metrics.off_policy import top_chances

ITEMS = 4
TRUTH = np.array([0.2, 0.5, 0.3, 0.7])  # The reward rate of each item.
LOGGING = np.array([0.4, 0.3, 0.2, 0.1])
POLICY = np.array([0.1, 0.2, 0.1, 0.6])
VALUE = float(POLICY @ TRUTH)


def log(
    num_users: int,
    seed: int,
    per_user: int = 1,
    predicted: np.ndarray | None = TRUTH - 0.1,
) -> LoggedChoices:
    """Requests that show one of four items; users like all or nothing more."""
    rng = np.random.default_rng(seed)
    count = num_users * per_user
    users = np.repeat(np.arange(num_users), per_user)
    liking = np.where(rng.random(num_users) < 0.5, 1.3, 0.7)[users]
    shown = rng.choice(ITEMS, count, p=LOGGING)
    rewards = np.full((count, ITEMS), np.nan)
    clicks = rng.random(count) < liking * TRUTH[shown]
    rewards[np.arange(count), shown] = clicks
    model = None if predicted is None else np.tile(predicted, count)
    return LoggedChoices.of(
        np.repeat([f"r{number}" for number in range(count)], ITEMS),
        rewards.ravel(),
        np.tile(LOGGING, count),
        np.tile(POLICY, count),
        model,
        # As ids of users that float64 would mix up.
        np.repeat(users + 2**53, ITEMS),
    )


@pytest.mark.parametrize("per_user", [1, 5])
def test_intervals_hold_the_truth_as_often_as_they_say(per_user: int) -> None:
    inside = dict.fromkeys(("ips", "snips", "doubly_robust"), 0)
    values: dict[str, list[float]] = {name: [] for name in inside}
    for seed in range(500):
        found = policy_values(log(300 // per_user, seed, per_user))
        for name in inside:
            value, interval = found[name]
            assert interval is not None
            inside[name] += interval.low <= VALUE <= interval.high
            values[name].append(value)
    for name, count in inside.items():
        assert 0.93 <= count / 500 <= 0.97, name
        assert np.mean(values[name]) == pytest.approx(VALUE, abs=0.006)
    # A model that is off by a constant still takes variance off.
    assert np.std(values["doubly_robust"]) < 0.95 * np.std(values["ips"])


def test_users_are_no_independent_requests() -> None:
    """Rows of a user that repeat ten times say no more than once."""
    choices = log(100, 0)
    requests = np.repeat(np.arange(1000), ITEMS)
    again = LoggedChoices.of(
        requests,
        np.tile(np.where(choices.shown, choices.rewards, np.nan), 10),
        np.tile(np.tile(LOGGING, 100), 10),
        np.tile(choices.chances, 10),
        clusters=np.tile(np.repeat(np.arange(100), ITEMS), 10),
    )
    once, ten = policy_values(choices)["ips"], policy_values(again)["ips"]
    assert ten.value == pytest.approx(once.value)
    assert ten.interval == pytest.approx(once.interval)


def test_by_hand() -> None:
    nothing = float("nan")
    choices = LoggedChoices.of(
        ["a", "a", "b", "b"],
        [1.0, nothing, 0.5, 0.25],
        [0.5, nothing, 0.8, 0.4],
        [0.75, 0.25, 0.4, 0.6],
        [0.5, 0.5, 0.5, 0.0],
    )
    found = policy_values(choices)
    # Weights 1.5, 0.5 and 1.5.
    assert found["logged"].value == pytest.approx((1 + 0.75) / 2)
    assert found["ips"].value == pytest.approx((1.5 + 0.25 + 0.375) / 2)
    assert found["snips"].value == pytest.approx(2.125 / 3.5)
    model = [0.375 + 0.125, 0.2 + 0.0]
    errors = [1.5 * 0.5, 0.5 * 0.0 + 1.5 * 0.25]
    assert found["doubly_robust"].value == pytest.approx(
        (sum(model) + sum(errors)) / 2
    )
    assert choices.effective_rows == pytest.approx(3.5**2 / 4.75)
    cut = LoggedChoices.of(
        *(["a", "b"], [1.0, 0.0], [0.1, 1.0], [1.0, 1.0]), largest_weight=3.0
    )
    assert policy_values(cut)["ips"].value == pytest.approx(1.5)
    one = LoggedChoices.of(["a"], [1.0], [1.0], [0.0])
    assert policy_values(one)["ips"] == (0.0, None)
    assert "snips" not in policy_values(one)


@given(st.data())
@settings(max_examples=30)
def test_what_all_estimates_have_in_common(data: st.DataObject) -> None:
    """A policy that is the log's own has its value; constants move SNIPS."""
    count = data.draw(st.integers(2, 12))
    shares = st.floats(0.05, 1)
    propensities = np.array(
        data.draw(st.lists(shares, min_size=count, max_size=count))
    )
    rewards = np.array(
        data.draw(st.lists(shares, min_size=count, max_size=count))
    )
    requests = np.arange(count)
    own = LoggedChoices.of(requests, rewards, propensities, propensities)
    found = policy_values(own)
    assert found["ips"].value == pytest.approx(found["logged"].value)
    chances = propensities[::-1]
    before, after = (
        policy_values(
            LoggedChoices.of(requests, rewards + more, propensities, chances)
        )["snips"].value
        for more in (0, 1)
    )
    assert after - before == pytest.approx(chances.mean())


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1),
    st.integers(1, 4),
)
@settings(max_examples=30)
def test_the_best_are_shown(rows: list[tuple[int, int]], top: int) -> None:
    scores, requests = np.array(rows).T
    chances = top_chances(scores * 1.0, requests, top)
    for request in set(requests):
        mine = requests == request
        wanted = []
        for score in scores[mine]:
            better = (scores[mine] > score).sum()
            ties = (scores[mine] == score).sum()
            wanted.append(min(max((top - better) / ties, 0), 1))
        np.testing.assert_allclose(chances[mine], wanted)
        assert chances[mine].sum() == pytest.approx(min(top, mine.sum()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [1.0, np.inf]}, "rewards, row 2"),
        ({"propensities": [0.0, 1.0]}, "propensities, row 1"),
        ({"propensities": [np.nan, 1.0]}, "above 0 and up to 1"),
        ({"chances": [1.5, 0.0]}, "chances, row 1"),
        ({"predicted": [0.0, np.nan]}, "predicted, row 2"),
        ({"rewards": [np.nan, np.nan]}, "at least one row"),
        ({"chances": [1.0]}, "chances: expected 2 rows"),
    ],
)
def test_wrong_rows_are_named(change: dict[str, object], message: str) -> None:
    columns: dict[str, object] = {
        "requests": ["a", "b"],
        "rewards": [1.0, 0.0],
        "propensities": [0.5, 0.5],
        "chances": [1.0, 0.0],
    }
    with pytest.raises(ValueError, match=message):
        LoggedChoices.of(**{**columns, **change})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level"):
        policy_values(log(2, 0), level=1.0)
