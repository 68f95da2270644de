"""Exact metrics of labels and predictions, of all rows and within groups.

`TASK_METRICS` and `RETRIEVAL_METRICS` have all that a run measures, a line for
each.

`ScoredRows.of` takes arrays, `ScoreAccumulator` the same in parts; each metric
takes the rows. All are computed in float64 over all rows, none from a batch or
a histogram. Rows with equal scores never depend on their order: pairs of them
count one half in an AUC, they are taken together in a precision-recall curve,
and metrics of positions give the expected value over all of their orders.

Own code, since no kept library is both right about ties and fast within groups.
CPU seconds, on one core:

- Here: the AUC of 10 million rows 1.4, GAUC of them in 1 million groups 1.4
  more, each further metric 0.1 to 1.0; a tenth of the rows, a tenth of it.
- scikit-learn 1.9 is right about ties and weights, and what the tests compare
  with, but knows no groups and sorts for each metric and each resample of a
  bootstrap: the AUC of 10 million rows 3.8, average precision 3.0.
- ranx 0.3.21 breaks ties by the order of the rows: a constant score may have
  an NDCG of 1. NDCG, recall, MRR and hit rate of 1 million rows in 100,000
  groups 19, of which 16 go into its dicts, after 41 of compiling.
- ir-measures 0.4.3 (trec_eval) breaks ties by the names of the rows; the same
  metrics 6.8.
- keras-rs 0.4 wants groups padded to one length, breaks ties by chance, and
  computes in float32; NDCG alone of 100,000 groups of 10 takes 0.9.
"""

from collections.abc import Callable
from collections.abc import Sequence

from recsys.metrics.accuracy import accuracy as accuracy
from recsys.metrics.auc import auc as auc
from recsys.metrics.calibration import CalibrationBins as CalibrationBins
from recsys.metrics.calibration import calibration_bins as calibration_bins
from recsys.metrics.calibration import ece as ece
from recsys.metrics.catalogue_ndcg import catalogue_ndcg
from recsys.metrics.catalogue_recall import catalogue_recall
from recsys.metrics.class_accuracy import class_accuracy
from recsys.metrics.class_log_loss import class_log_loss
from recsys.metrics.confidence_interval import Interval as Interval
from recsys.metrics.confidence_interval import (
    confidence_interval as confidence_interval,
)
from recsys.metrics.confidence_interval import (
    confidence_intervals as confidence_intervals,
)
from recsys.metrics.coverage import coverage
from recsys.metrics.expert_use import ExpertUse as ExpertUse
from recsys.metrics.gauc import gauc as gauc
from recsys.metrics.group_mean import GroupMean as GroupMean
from recsys.metrics.hit_rate import hit_rate as hit_rate
from recsys.metrics.intra_list_distance import intra_list_distance
from recsys.metrics.labelled_rows import LabelledRows as LabelledRows
from recsys.metrics.log_loss import log_loss as log_loss
from recsys.metrics.mae import mae
from recsys.metrics.metric import IN_GROUPS as IN_GROUPS
from recsys.metrics.metric import Metric as Metric
from recsys.metrics.mrr import mrr as mrr
from recsys.metrics.mse import mse
from recsys.metrics.ndcg import ndcg as ndcg
from recsys.metrics.normalized_entropy import (
    normalized_entropy as normalized_entropy,
)
from recsys.metrics.novelty import novelty
from recsys.metrics.position_gains import PositionGains as PositionGains
from recsys.metrics.pr_auc import pr_auc as pr_auc
from recsys.metrics.recall import recall as recall
from recsys.metrics.recommended_lists import RecommendedLists
from recsys.metrics.rmse import rmse
from recsys.metrics.score_accumulator import (
    ScoreAccumulator as ScoreAccumulator,
)
from recsys.metrics.scored_rows import ScoredRows as ScoredRows

# By the kind of task, its loss first, and those within the groups of one.
# A name is shown alike for all kinds of tasks.
TASK_METRICS: dict[str, Sequence[Metric]] = {
    "binary": [
        Metric("loss", log_loss, higher_is_better=False),
        Metric("auc", auc, "AUC", compared=True, in_progress=True),
        Metric("pr_auc", pr_auc, "PR-AUC"),
        Metric(
            "accuracy", accuracy, "Accuracy", compared=True, in_progress=True
        ),
        Metric("ece", ece, "ECE", higher_is_better=False),
        Metric(
            "normalized_entropy", normalized_entropy, higher_is_better=False
        ),
    ],
    IN_GROUPS: [
        Metric("gauc", gauc, "GAUC", compared=True),
        Metric("ndcg", ndcg, at_k=True),
        Metric("recall", recall, at_k=True),
        Metric("hit_rate", hit_rate, at_k=True),
        Metric("mrr", mrr),
    ],
    "multiclass": [
        Metric("loss", class_log_loss, higher_is_better=False),
        Metric(
            "accuracy",
            class_accuracy,
            "Accuracy",
            compared=True,
            in_progress=True,
        ),
    ],
    "regression": [
        Metric("loss", mse, higher_is_better=False),
        # Without a title: it is the loss.
        Metric("mse", mse, compared=True, higher_is_better=False),
        Metric(
            "rmse",
            rmse,
            "RMSE",
            compared=True,
            in_progress=True,
            higher_is_better=False,
        ),
        Metric("mae", mae, "MAE", compared=True, higher_is_better=False),
    ],
}

# Of where right answers are in the ranking of a catalogue: from k to what they
# gain there. `metrics.json` has each by row, and by user as "user_<name>@<k>".
RETRIEVAL_METRICS: dict[str, Callable[[int], PositionGains]] = {
    "recall": catalogue_recall,
    "ndcg": catalogue_ndcg,
}

# Of whole lists of items, whether they are right or not. `metrics.json` has
# each under "diversity" of "retrieval", as "<name>@<k>".
LIST_METRICS: dict[str, Callable[[RecommendedLists], float | None]] = {
    "novelty": novelty,
    "coverage": coverage,
    "intra_list_distance": intra_list_distance,
}
