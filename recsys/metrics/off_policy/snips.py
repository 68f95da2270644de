from recsys.metrics.off_policy.logged_choices import LoggedChoices
from recsys.metrics.off_policy.logged_choices import Numbers


def snips(choices: LoggedChoices) -> tuple[float, Numbers] | None:
    """Self-normalized inverse propensity scores: less variance, a small bias.

        V = m Σ w r / Σ w

    over shown rows, with m the mean number of rows that the policy shows in a
    request. A constant added to all rewards adds m times it to the value.

    Returns:
        The value, and the influence of each request on it `(R,)`, from the
        linearization of the ratio; `None` where no row has weight.

    References:
        Swaminathan, Joachims. The Self-Normalized Estimator for Counterfactual
        Learning. NIPS 2015, equation 5.
    """
    if not choices.weights.any():
        return None
    rewards = choices.by_request(choices.weights * choices.rewards)
    weights = choices.by_request(choices.weights)
    shown = choices.by_request(choices.chances)
    ratio = float(rewards.sum() / weights.sum())
    number = float(shown.mean())
    influence = number * (rewards - ratio * weights) / weights.mean()
    return number * ratio, influence + ratio * (shown - number)
