"""The search space for data in no paper, for minutes rather than days.

The papers give a trial 100 epochs or more, and stop it after 25 without a
better validation loss. 20 epochs, and 3 without a better loss, are the defaults
of a training of `recsys`, or twice these; learning rates up to 3e-3, 6 times
those of the papers, reach their best loss in as many. The sizes of the model
keep their defaults.
"""

from recsys.files.json_files import JsonObject

TRAINING: JsonObject = {
    "learning_rate": {"min": 1e-4, "max": 3e-3, "sampling": "log"},
    "epochs": [20],
    "patience": [3],
}

# Of every gate with permutation local search: a quarter of the epochs at most.
LOCAL_SEARCH: JsonObject = {
    "search_epochs": [1, 2, 3, 4, 5],
    "search_entropy_weight": [1e-4],
}

# Of COMET and DSelect-k. A selector is binary once its logit is beyond
# gamma / 2, the narrower the sooner: after some hundred steps, few rows are
# undecided. The published values are for 100 epochs and more, and a trial
# that stays dense does not count: benchmarks/README.md, "A first search that
# counts".
SMOOTH_STEPS: JsonObject = {
    "gamma": [1e-4, 3e-4, 1e-3],
    "entropy_weight": [0.1, 1.0, 10.0],
}
