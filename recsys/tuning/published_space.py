from typing import Any

from recsys.models.gates import SEARCH_SUFFIX
from recsys.models.gates import searches
from recsys.tuning import first_search
from recsys.tuning.papers import comet
from recsys.tuning.papers import dselect_k
from recsys.tuning.papers import moesart

# Whose gates' hyperparameters are searched on data that are in no paper.
_DEFAULT = "movielens-1m"
_IMAGES = ("digits", "multi-mnist", "multi-fashion-mnist", "celeba")


def published_space(gate: str, data_set: str) -> dict[str, Any]:
    """Returns the search space that is published for a gate and a data set.

    Gates without hyperparameters of their own in the papers are tuned over
    the optimizer's alone.

    Args:
        gate: Name of the gate, with or without a `+`.
        data_set: Name of the data set in `dataset.json`. One that is in no
            paper is searched as `recsys.tuning.first_search` says, with the
            gates' own hyperparameters of MovieLens.

    Returns:
        What `recsys.tuning.parse_space` reads.

    Example:
    >>> published_space("moesart", "books")["gate_options"]
    {'trimmed_lasso_weight': [0.0, 0.01, 0.1, 1.0, 10.0]}

    References:
        Ibrahim et al., COMET, KDD 2023, supplement S1.3.
        Ibrahim et al., MOESART, supplement S6.3.
        Hazimeh et al., DSelect-k, NeurIPS 2021, appendix D.
    """
    if data_set in comet.PUBLISHED:
        space = dict(comet.PUBLISHED[data_set].training)
        local_search = comet.LOCAL_SEARCH
    else:
        space = dict(first_search.TRAINING)
        local_search = first_search.LOCAL_SEARCH
        data_set = _DEFAULT
    if gate.startswith("moesart") and data_set in moesart.NUM_EXPERTS:
        space["num_experts"] = [moesart.NUM_EXPERTS[data_set]]
    options = _gate_options(gate, data_set)
    if options:
        space["gate_options"] = options
    if searches(gate):
        space |= local_search
    return space


def _gate_options(gate: str, data_set: str) -> dict[str, Any]:
    name = gate.removesuffix(SEARCH_SUFFIX)
    if name == "moesart":
        return {"trimmed_lasso_weight": moesart.TRIMMED_LASSO_WEIGHT}
    if name == "gumbel-softmax":
        if data_set in _IMAGES:
            return {"sparsity_weight": dselect_k.IMAGE_SPARSITY_WEIGHT}
        return {"sparsity_weight": dselect_k.SPARSITY_WEIGHT}
    if name in ("comet", "dselect-k"):
        published = comet.PUBLISHED[data_set]
        with_search = gate == f"comet{SEARCH_SUFFIX}"
        return {
            "gamma": [published.gamma_with_search]
            if with_search
            else published.gamma,
            "entropy_weight": published.entropy_weight,
        }
    return {}
