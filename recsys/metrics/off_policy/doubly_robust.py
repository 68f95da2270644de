from recsys.metrics.off_policy.logged_choices import LoggedChoices
from recsys.metrics.off_policy.logged_choices import Numbers


def doubly_robust(choices: LoggedChoices) -> tuple[float, Numbers] | None:
    """A model of rewards, corrected by what was observed.

        V = 1/R Σ_requests ( Σ_rows chance q + Σ_shown w (r - q) )

    with q the rewards that a model predicts for all rows of a request. It is
    unbiased if the propensities are right, whatever the model, and if the
    model is right, whatever the propensities; a good model takes variance off.
    The model must not be fitted to these rows.

    Returns:
        The value, and what each request contributes to it less the value,
        `(R,)`; `None` without predictions.

    References:
        Dudík, Langford, Li. Doubly Robust Policy Evaluation and Learning. ICML
        2011, equation 2.
    """
    if choices.predicted is None:
        return None
    errors = choices.rewards - choices.predicted  # Weight 0 if not shown.
    of_requests = choices.by_request(
        choices.chances * choices.predicted + choices.weights * errors
    )
    value = float(of_requests.mean())
    return value, of_requests - value
