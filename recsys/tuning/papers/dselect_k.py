"""Hazimeh et al., DSelect-k, NeurIPS 2021: the search spaces of appendix D.

Only the weight of the Gumbel-softmax gate's penalty is taken from there. The
rest is tuned for Adagrad and 8 experts; the COMET paper tunes DSelect-k on the
same data with Adam, as `recsys` trains, and 16 experts.
"""

# D.1, MovieLens.
SPARSITY_WEIGHT = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]

# D.2, MultiMNIST and MultiFashionMNIST.
IMAGE_SPARSITY_WEIGHT = [0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0]
