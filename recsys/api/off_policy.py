from pathlib import Path

from recsys.baselines.config import is_baseline
from recsys.data import load
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.files.json_files import JsonObject
from recsys.measuring.policy import Policy
from recsys.measuring.policy import measure_policy
from recsys.runs.run import Run


def off_policy(
    run: str | Path,
    data: str | Path,
    reward: str,
    score: str | None = None,
    top: int = 1,
    split: str = "test",
    largest_weight: float | None = None,
) -> JsonObject:
    """Estimates what a model would earn, from the log of another policy.

    In each request, a group of rows, the policy shows the rows with the best
    scores. `recsys.metrics.off_policy` has the estimators and what they
    assume.

    Args:
        run: Folder of a run, not trained on this split.
        data: Data folder with a "group", the request, and a "propensity". A
            row that the log has not shown has no propensity and no label, and
            is a candidate all the same.
        reward: Binary or regression task whose labels are the rewards.
        score: What rows are ranked by, a formula over the predictions as in
            `recsys.recommend`. The prediction of `reward` unless given.
        top: How many rows of a request are shown. Defaults to 1.
        split: "train", "validation" or "test" (default).
        largest_weight: Weights of rows are cut off there, for less variance
            and some bias. Not cut off unless given.

    Returns:
        The arguments from `reward` to `top` and `largest_weight`; "requests",
        and "clusters" of them that are independent of each other: users, where
        the data name one; "shown_rows" of the log; "effective_rows", how many
        shown rows of equal weight would be as precise; and "values", by
        estimator ("logged" for the policy that has written the log, "ips",
        "snips", "doubly_robust") the "value", the mean sum of rewards in a
        request, and its 95 % "interval", a list of two, `None` for one
        cluster.

    Raises:
        DataError: The data are missing or wrong, or have no group, propensity
            or shown rows.
        FileError: A file of the run is broken.
        RunError: There is no trained run in the folder, or one whose tasks
            were not trained, or a baseline.
        ValueError: The reward is no such task, the score no formula, `top`
            less than 1, or `largest_weight` not above 0.
    """
    check_count("top", top)
    if largest_weight is not None and not largest_weight > 0:
        raise ValueError(
            "`largest_weight` must be above 0. "
            f"Received: largest_weight={largest_weight}"
        )
    folder = Run(run)
    if is_baseline(folder.config):
        raise RunError(
            f"{folder.folder}: expected a run of `recsys train`. "
            "Received: a baseline"
        )
    model, dataset = folder.load_model(), load(data)
    model.check_trained_tasks(folder.folder)
    model.check_fits(dataset)
    ranked_by = f"`{reward}`" if score is None else score
    policy = Policy(reward, ranked_by, top, largest_weight)
    return measure_policy(model, dataset, split, policy)
