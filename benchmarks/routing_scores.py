"""Scores that make a Top-k gate route as wanted."""

import numpy as np

ROUTINGS = ("balanced", "zipf", "four", "one")


def make_scores(
    routing: str, rows: int, num_experts: int, k: int, num_tasks: int
) -> list[np.ndarray]:
    """Makes the scores of each task's gate.

    Args:
        routing: `"balanced"`: all experts get as many rows, and the tasks
            choose different experts as far as there are any; `"zipf"`:
            expert i is chosen in proportion to 1 / (i + 1); `"four"`: four
            experts carry everything; `"one"`: all rows take the same k.
        rows: Rows of the batch.
        num_experts: Experts.
        k: Experts a row and task.
        num_tasks: Tasks.

    Returns:
        A float32 array `(rows, num_experts)` a task, whose k largest
        entries are the wanted experts.
    """
    rng = np.random.default_rng(0)
    scores = []
    for task in range(num_tasks):
        noise = rng.gumbel(size=(rows, num_experts))
        if routing == "balanced":
            first = (np.arange(rows) * num_tasks + task) * k
            chosen = (first[:, None] + np.arange(k)) % num_experts
            preference = np.zeros((rows, num_experts))
            np.put_along_axis(preference, chosen, 100.0, axis=1)
        elif routing == "zipf":
            preference = -np.log1p(np.arange(num_experts))[None]
        elif routing == "four":
            preference = np.where(np.arange(num_experts) < 4, 100.0, 0.0)[None]
        else:
            preference = -100.0 * np.arange(num_experts)[None]
        scores.append((preference + noise).astype("float32"))
    return scores


def count_pairs(scores: list[np.ndarray], k: int) -> int:
    """How many pairs (row, expert) any task needs."""
    chosen = np.zeros(scores[0].shape, bool)
    for task_scores in scores:
        experts = np.argpartition(-task_scores, k - 1, axis=1)[:, :k]
        np.put_along_axis(chosen, experts, True, axis=1)
    return int(chosen.sum())
