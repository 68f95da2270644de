"""The configuration in a model's file, checked value by value."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Annotated
from typing import Literal
from typing import Self

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import FiniteFloat
from pydantic import model_validator

from recsys.errors import FileError
from recsys.errors.bounds import Count
from recsys.errors.bounds import Width
from recsys.errors.shapes import check_shape
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.models.calibration.calibration import Calibration
from recsys.tasks.log_columns import LARGEST_POSITION

# Names of the dtypes that layers compute in.
_FLOATS = (
    *("float16", "bfloat16", "float32", "float64"),
    *("mixed_float16", "mixed_bfloat16"),
)
# What is as large as one of the weights, in layers and in models.
_SIZES = (
    *("units", "num_experts", "embedding_dim", "head_units", "filters"),
    *("dim", "buckets", "num_buckets", "num_items", "projection_dim"),
    *("input_dim", "output_dim", "num_scenarios"),
)
# Sizes up to here need no weights that are as large: they may be unused.
_SMALL = 2**12

_Name = Annotated[str, Field(min_length=1)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _State(_Shape):
    """Fitted values of a feature of any kind."""

    mean: FiniteFloat = 0.0
    variance: Annotated[FiniteFloat, Field(ge=0)] = 1.0
    borders: list[FiniteFloat] = []
    raw_dtype: Literal["int64", "string"] = "int64"
    length: Count = 1
    vocabulary: JsonObject = {}


class _Feature(_Shape):
    declaration: str | JsonObject
    state: _State


class _Model(_Shape):
    """The arguments of a ranker or a classifier; earlier ones had fewer."""

    tasks: dict[_Name, str | JsonObject] = {}
    mixture: JsonObject = {}
    features: dict[_Name, _Feature] = {}
    head_units: list[Width] = []
    num_classes: dict[str, Count] = {}
    constants: dict[str, FiniteFloat | list[FiniteFloat]] = {}
    target_scales: dict[str, Annotated[FiniteFloat, Field(gt=0)]] = {}
    calibrations: dict[str, Calibration] = {}
    num_positions: Annotated[int, Field(ge=0, le=LARGEST_POSITION)] = 0
    embedding_dim: Width | dict[str, Width] = 1
    hash_feature: str | None = None
    unknown_rate: Annotated[FiniteFloat, Field(ge=0, lt=1)] = 0.0
    interaction: JsonObject | None = None
    scenario_model: JsonObject | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in self._named():
            if self.features and name is not None and name not in self.features:
                raise ValueError(
                    "expected features that there are as hash_feature, as the "
                    "item of retrieval, as the scenario and its prior, and of "
                    "calibrations. "
                    f"Received: {shown(name)}"
                )
        return self

    def _named(self) -> list[object]:
        """What the arguments refer to by name: a feature, or `None`."""
        calibrated = [
            calibration.feature for calibration in self.calibrations.values()
        ]
        config = (self.scenario_model or {}).get("config")
        if not isinstance(config, Mapping):
            return [self.hash_feature, *calibrated]
        prior = config.get("prior", [])
        prior = prior if isinstance(prior, list) else [prior]
        return [
            *(self.hash_feature, *calibrated),
            *(config.get("feature"), *prior),
        ]


class _TwoTower(_Model):
    """The arguments of a ranker with retrieval."""

    retrieval: JsonObject

    def _named(self) -> list[object]:
        config = self.retrieval.get("config")
        item = config.get("item") if isinstance(config, Mapping) else None
        return [*super()._named(), item]


# By class of Keras, what a file says of its model.
_MODELS = {
    "Ranker": dict[str, _Model],
    "TwoTower": dict[str, _TwoTower],
    "ImageClassifier": dict[str, _Model],
}


class _Saved(_Shape):
    class_name: _Name
    config: JsonObject


def check_saved_config(content: object, file: object, largest: int) -> None:
    """Checks the configuration of a model, before a model is made of it.

    Args:
        content: What `config.json` of the model's file holds.
        file: The file, for the error message.
        largest: The largest of all sizes of its weights: a layer is not
            larger.

    Raises:
        FileError: A value is of another kind or outside its bounds. The
            message says where.
    """
    saved = check_shape(content, _Saved, file)
    if saved.class_name in _MODELS:
        check_shape({"config": saved.config}, _MODELS[saved.class_name], file)
    most = max(largest, _SMALL)
    for place, key, value in _values(saved.config, "config"):
        if key == "dtype" and _policy(value) not in _FLOATS:
            expected = f"a dtype among {', '.join(_FLOATS)} at {place}"
            raise FileError.at(file, expected, shown(value))
        if key in _SIZES and _largest(value) > most:
            expected = f"at most {most:,}, as its weights have, at {place}"
            raise FileError.at(file, expected, shown(value))


def _values(
    content: object, place: str, key: str = ""
) -> Iterator[tuple[str, str, object]]:
    """All values, with their places and the names that they go by."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield f"{place}.{name}", name, value
            yield from _values(value, f"{place}.{name}", name)
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _values(value, f"{place}[{index}]", key)


def _policy(value: object) -> object:
    """The name of a dtype, or of the policy that an object stands for."""
    if isinstance(value, Mapping):
        config = value.get("config")
        value = config.get("name") if isinstance(config, Mapping) else None
    return value if isinstance(value, str) else None


def _largest(value: object) -> float:
    if isinstance(value, Mapping):
        value = list(value.values())
    numbers = value if isinstance(value, list) else [value]
    kinds = (int, float)
    return max(
        (number for number in numbers if isinstance(number, kinds)), default=0
    )
