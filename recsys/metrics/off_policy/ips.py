from recsys.metrics.off_policy.logged_choices import LoggedChoices
from recsys.metrics.off_policy.logged_choices import Numbers


def ips(choices: LoggedChoices) -> tuple[float, Numbers]:
    """Inverse propensity scores: unbiased, with much variance.

        V = 1/R Σ_requests Σ_shown w r,  w = chance / propensity

    Returns:
        The value, and what each request contributes to it less the value,
        `(R,)`.

    References:
        Horvitz, Thompson. A Generalization of Sampling Without Replacement
        from a Finite Universe. JASA 47, 1952.
        Li, Chu, Langford, Wang. Unbiased Offline Evaluation of Contextual-
        bandit-based News Article Recommendation Algorithms. WSDM 2011.
    """
    of_requests = choices.by_request(choices.weights * choices.rewards)
    value = float(of_requests.mean())
    return value, of_requests - value
