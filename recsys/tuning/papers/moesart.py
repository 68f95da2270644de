"""Ibrahim et al., MOESART: the search spaces of supplement S6.3.

The optimizer's are those of the COMET paper, but for the number of experts on
MultiMNIST. SVHN, which is not tuned there, is left out.
"""

TRIMMED_LASSO_WEIGHT = [0.0, 0.01, 0.1, 1.0, 10.0]

NUM_EXPERTS = {"multi-mnist": 8}
