from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic import BeforeValidator
from pydantic import ConfigDict
from pydantic import Field
from pydantic import StrictInt
from pydantic.dataclasses import dataclass

from recsys.config.config_file import Fields
from recsys.config.presets import PRESETS
from recsys.config.presets import TABLES
from recsys.data import Schema
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.shapes import check_shape
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.reporting.planned import Planned
from recsys.reporting.planned import checked_model
from recsys.reporting.planned import planned

# The files beside the runs.
_TABLES = ("results.csv", "table.md")

_LONGEST_NAME = 100
_MOST_SEEDS = 1000


def _folder_name(name: str) -> str:
    if (
        not 0 < len(name) <= _LONGEST_NAME
        or name.startswith((".", " "))
        or name.endswith((".", " "))
        or set(name) & set("/\\")
        or not name.isprintable()
        or name in _TABLES
    ):
        raise ValueError(
            f"expected a valid name of a folder: up to {_LONGEST_NAME} "
            "printable characters, without / and \\, without a space "
            f"or a dot at its ends, and not {' or '.join(_TABLES)}. "
            f"Received: {shown(name)}"
        )
    return name


def _setting_name(name: str) -> str:
    return _folder_name(name) if name else name


def _own_fields(fields: JsonObject) -> JsonObject:
    for name, instead in (("seed", "`seeds`"), ("out", "the names")):
        if name in fields:
            raise ValueError(
                f"`{name}` of a run is set by {instead} of the comparison. "
                f"Received: {name}={shown(fields[name])}"
            )
    return fields


def _listed_seeds(seeds: object) -> object:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= _MOST_SEEDS:
            raise ValueError(
                f"expected 1 to {_MOST_SEEDS:,} seeds. Received: {shown(seeds)}"
            )
        return list(range(seeds))
    return seeds


def _different(seeds: list[int]) -> list[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"expected seeds, each once. Received: {shown(seeds)}")
    return seeds


_Fields = Annotated[Fields, AfterValidator(_own_fields)]
_Model = Annotated[
    JsonObject, AfterValidator(checked_model), AfterValidator(_own_fields)
]
_Name = Annotated[str, AfterValidator(_folder_name)]
_SettingName = Annotated[str, AfterValidator(_setting_name)]
_Seed = Annotated[StrictInt, Field(ge=0, lt=LARGEST_COUNT)]
_Seeds = Annotated[
    list[_Seed], BeforeValidator(_listed_seeds), AfterValidator(_different)
]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Comparison:
    """Models that are trained alike, to be compared.

    A JSON file with these fields says the same; `docs/comparing.md` has an
    example. All names are those of folders too.

    Args:
        models: By name, the fields of `TrainConfig` that make each model. With
            `single_tasks` true, there is one for each task, trained on it
            alone; with `baseline`, the name of a baseline, the fields are
            those of `BaselineConfig`.
        base: The fields that all share.
        settings: By name, fields that all models are trained with in turn,
            such as the tasks' weights. One setting without a name and without
            any, unless given.
        seeds: The seeds that everything is repeated with, or how many: 3 for
            0, 1 and 2. The seed 0 alone, unless given.
        against: By model, the one that its losses are tested against.

    Raises:
        ValueError: There is no model or seed, a field or a name is wrong, or
            `against` names an unknown model.

    Example:
    >>> gates = {name: {"gate": name} for name in ("comet", "top-k")}
    >>> Comparison(gates, {"data": "synthetic", "k": 2}, seeds=3).seeds
    [0, 1, 2]
    """

    models: dict[_Name, _Model]
    base: _Fields = field(default_factory=dict)
    settings: dict[_SettingName, _Fields] = field(
        default_factory=lambda: {"": {}}
    )
    seeds: _Seeds = field(default_factory=lambda: [0])
    against: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("models", "settings"):
            if not getattr(self, name):
                raise ValueError(
                    f"`{name}` of a comparison must not be empty. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
        if "" in self.settings and len(self.settings) > 1:
            raise ValueError(
                "`settings` of a comparison must have names if there are "
                f"several. Received: {list(self.settings)}"
            )
        for name in [*self.against, *self.against.values()]:
            if name not in self.models:
                raise ValueError(
                    "`against` must name models of the comparison, "
                    f"{list(self.models)}. Received: {shown(name)}"
                )

    @classmethod
    def read(cls, file: str | Path) -> "Comparison":
        """Reads a comparison from a JSON file with its fields.

        Raises:
            FileError: The file is broken, or a field is unknown, missing or
                wrong.
            FileNotFoundError: There is no file.
        """
        comparison: Comparison = check_shape(read_json(Path(file)), cls, file)
        return comparison

    def runs(self, out: Path, **fields: object) -> list[Planned]:
        """Returns all runs, each with a folder of its own in `out`.

        Args:
            out: Folder of the runs.
            **fields: Fields of `TrainConfig` that hold for all of them.

        Raises:
            DataError: A model of single tasks has data without a schema.
            ValueError: A run has no data, or a field is wrong.
        """
        return [
            planned(
                setting,
                model,
                {
                    **self.base,
                    **self.settings[setting],
                    **self.models[model],
                    **fields,
                    "seed": seed,
                    "out": str(out / setting / model / f"seed-{seed}"),
                },
            )
            for seed in self.seeds
            for setting in self.settings
            for model in self.models
        ]


def experts(schema: Schema) -> Comparison:
    """Returns the comparison that says whether experts pay on a data set.

    Simple models of tables, a model for each task, shared bottoms and mixtures
    with all experts and with few of them, three seeds each, by the defaults of
    `TrainConfig`. On tables, one bottom is as large as all experts, and one
    as those that a row takes at most.

    Args:
        schema: The schema of the data set.
    """
    bottom: JsonObject = {"architecture": "shared-bottom"}
    models: dict[str, JsonObject] = {}
    if not schema.holds_images:
        roles = {schema.user_id, schema.item_id} - {None}
        if roles:
            models["biases"] = {"baseline": "bias"}
        if len(roles) == 2:
            models["matrix factorization"] = {"baseline": "biased-mf"}
        models["linear"] = {"baseline": "linear"}
        models["boosted trees"] = {"baseline": "gbdt"}
    if len(schema.tasks) > 1:
        models["single-task models"] = {**bottom, "single_tasks": True}
    if not schema.holds_images:
        sizes = PRESETS[TABLES]
        taken = min(sizes.k * len(schema.tasks), sizes.num_experts)
        models["narrow shared bottom"] = {**bottom, "num_experts": taken}
    models["shared bottom"] = bottom
    models["dense mixture"] = {"gate": "softmax"}
    models["sparse mixture"] = {}
    rival = "shared bottom"
    return Comparison(
        models,
        seeds=[0, 1, 2],
        against={"dense mixture": rival, "sparse mixture": rival},
    )


COMPARISONS: dict[str, Callable[[Schema], Comparison]] = {"experts": experts}
