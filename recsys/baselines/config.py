from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import field
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict
from pydantic import Field
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from recsys.baselines import BASELINES
from recsys.baselines.option import checked_options
from recsys.config.fields import Place
from recsys.config.fields import Text
from recsys.config.fields import Weights
from recsys.config.fields import check_flag_with
from recsys.errors import FileError
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import Count
from recsys.errors.choices import one_of
from recsys.errors.clear_errors import with_clear_errors
from recsys.errors.shapes import check_shape
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json


@with_clear_errors
@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class BaselineConfig:
    """Everything that one baseline depends on.

    Args:
        data: Data folder, or "synthetic" for the generated data set.
        model: Name of the baseline.
        out: Run folder; new or empty.
        options: Hyperparameters by name; those that are not given are chosen
            on the validation split.
        retrieval_label: Binary task whose label is 1 in the rows that a
            baseline of retrieval is fitted on and measured by; all rows with
            "all". Unless given, the first binary task, and all rows where
            there is none.
        exclude_seen: Whether what a user has had in the training split, or for
            the test in the validation split, is no candidate when retrieval is
            measured, unless it is looked for.
        exclude_seen_targets: Whether it is none even then, so that a target
            that the user has had before is not found.
        refit: Whether a baseline of retrieval is fitted again on the training
            and the validation split, with the hyperparameters chosen, before
            the test split is measured.
        task_weights: Weight of each task's loss in the loss; equal shares of
            what is left to 1 unless given.
        standardize_targets: Whether the losses of regression tasks count in
            variances of the labels; as in a training unless given.
        metrics_k: How many items, or rows of a group, metrics look at.
        seed: Seed of what is drawn.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A field is outside its bounds.
    """

    data: Place
    model: Annotated[Text, one_of(BASELINES)]
    out: Place
    options: Annotated[JsonObject, Field(strict=False)] = field(
        default_factory=dict
    )
    retrieval_label: Text | None = None
    exclude_seen: bool = True
    exclude_seen_targets: bool = False
    refit: bool = False
    task_weights: Weights = field(default_factory=dict)
    standardize_targets: bool | None = None
    metrics_k: Count = 10
    seed: Annotated[int, Field(ge=0, lt=LARGEST_COUNT)] = 0

    @model_validator(mode="after")
    def _check_options(self) -> "BaselineConfig":
        known = BASELINES[self.model].options
        options = checked_options(self.model, known, self.options)
        object.__setattr__(self, "options", options)
        return self

    @model_validator(mode="after")
    def _check_seen(self) -> "BaselineConfig":
        name, targets = "exclude_seen", self.exclude_seen_targets
        check_flag_with(name, self.exclude_seen, f"{name}_targets", targets)
        return self

    def to_mapping(self) -> JsonObject:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)


def is_baseline(config: Path) -> bool:
    """Tells whether the `config.json` of a run is that of a baseline.

    Args:
        config: The file, which need not exist.

    Raises:
        FileError: The file is broken.
    """
    if not config.is_file():
        return False
    content = read_json(config)
    return isinstance(content, Mapping) and "model" in content


def read_baseline_config(config: Path) -> BaselineConfig:
    """Reads the `config.json` of a baseline.

    Raises:
        FileError: The file is broken.
    """
    fields = dict(check_shape(read_json(config), JsonObject, config))
    fields.pop("versions", None)
    try:
        return BaselineConfig(**fields)
    except (ValueError, TypeError) as error:
        raise FileError(f"{config}: {error}") from error
