"""A multi-task recommender, from interaction logs to a served model.

Nothing here imports Keras before it is used, so that the backend can still be
chosen: set the environment variable `KERAS_BACKEND` first.
"""

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any

from recsys.backend import quiet_start

if TYPE_CHECKING:
    from recsys.api.add_items import add_items as add_items
    from recsys.api.baseline import baseline as baseline
    from recsys.api.calibrate import calibrate as calibrate
    from recsys.api.compare import compare as compare
    from recsys.api.compress import compress as compress
    from recsys.api.describe import describe as describe
    from recsys.api.evaluate import evaluate as evaluate
    from recsys.api.explain import explain as explain
    from recsys.api.export import export as export
    from recsys.api.fit_baselines import fit_baselines as fit_baselines
    from recsys.api.info import info as info
    from recsys.api.off_policy import off_policy as off_policy
    from recsys.api.predict import predict as predict
    from recsys.api.promote import promote as promote
    from recsys.api.recommend import recommend as recommend
    from recsys.api.recommender import Recommender as Recommender
    from recsys.api.report import report as report
    from recsys.api.reproduce import reproduce as reproduce
    from recsys.api.rerun import rerun as rerun
    from recsys.api.serve import serve as serve
    from recsys.api.train import train as train
    from recsys.api.train_by_part import train_by_part as train_by_part
    from recsys.api.tune import tune as tune
    from recsys.config.train_config import TrainConfig as TrainConfig
    from recsys.data import DataError as DataError
    from recsys.data import Dataset as Dataset
    from recsys.data import Schema as Schema
    from recsys.data import dataset_from_table as dataset_from_table
    from recsys.data import load as load
    from recsys.data import prepare as prepare
    from recsys.data import synthetic as synthetic
    from recsys.errors import ExportError as ExportError
    from recsys.errors import FileError as FileError
    from recsys.errors import NonFiniteLossError as NonFiniteLossError
    from recsys.errors import RunError as RunError
    from recsys.models.ranker import Ranker as Ranker
    from recsys.models.two_tower import TwoTower as TwoTower
    from recsys.reporting.comparison import Comparison as Comparison
    from recsys.runs.run import load_model as load_model
    from recsys.runs.run import load_ranker as load_ranker

_HOMES = {
    "recsys.config.train_config": ("TrainConfig",),
    "recsys.data": (
        "DataError",
        "Dataset",
        "Schema",
        "dataset_from_table",
        "load",
        "prepare",
        "synthetic",
    ),
    "recsys.errors": (
        "ExportError",
        "FileError",
        "NonFiniteLossError",
        "RunError",
    ),
    "recsys.models.ranker": ("Ranker",),
    "recsys.models.two_tower": ("TwoTower",),
    "recsys.runs.run": ("load_model", "load_ranker"),
    "recsys.api.add_items": ("add_items",),
    "recsys.api.baseline": ("baseline",),
    "recsys.api.calibrate": ("calibrate",),
    "recsys.api.compare": ("compare",),
    "recsys.reporting.comparison": ("Comparison",),
    "recsys.api.compress": ("compress",),
    "recsys.api.describe": ("describe",),
    "recsys.api.evaluate": ("evaluate",),
    "recsys.api.explain": ("explain",),
    "recsys.api.export": ("export",),
    "recsys.api.fit_baselines": ("fit_baselines",),
    "recsys.api.info": ("info",),
    "recsys.api.off_policy": ("off_policy",),
    "recsys.api.predict": ("predict",),
    "recsys.api.promote": ("promote",),
    "recsys.api.recommend": ("recommend",),
    "recsys.api.recommender": ("Recommender",),
    "recsys.api.report": ("report",),
    "recsys.api.reproduce": ("reproduce",),
    "recsys.api.rerun": ("rerun",),
    "recsys.api.serve": ("serve",),
    "recsys.api.train": ("train",),
    "recsys.api.train_by_part": ("train_by_part",),
    "recsys.api.tune": ("tune",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with quiet_start():
        home = import_module(_HOME[name])
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(_HOME)
