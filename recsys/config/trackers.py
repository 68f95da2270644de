# By name on the command line, the `recsys.training.tracking.tracker.Tracker`,
# as `pkgutil.resolve_name` finds it: its package is imported where it is asked
# for.
TRACKERS: dict[str, str] = {
    "mlflow": "recsys.training.tracking.mlflow_tracker:MlflowTracker",
    "wandb": "recsys.training.tracking.wandb_tracker:WandbTracker",
}
