from collections.abc import Mapping
from collections.abc import Sequence
from math import prod
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.columns.kind import Declaration
from recsys.data import DataError
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data.load import AnyDataset
from recsys.features import Feature
from recsys.features import Image
from recsys.models.multi_task_model import MultiTaskModel
from recsys.tasks import Task

_WHITE = 255  # Sums of pixels may be larger.


@keras.saving.register_keras_serializable(package="recsys")
class ImageClassifier(MultiTaskModel):
    """The multi-task classifier of images: a mixture, a head for each task.

    Pixels are divided by 255. The experts see images, the gates all pixels of
    an image as one vector.

    The model is built when it is constructed.

    Args:
        image_shape: Integers, height, width and channels.
        tasks: Tasks with their kind, `"binary"` or `"multiclass"`.
        mixture: `keras_moe.layers.MMoE` with one gate per task and experts that
            take images.
        head_units: Integers, the hidden widths of a head. Defaults to
            `(50, 50)`.
        num_classes: For each multiclass task, how many classes there are.
        feature: Name of the image feature. Defaults to `"image"`.
        **kwargs: `constants`, `target_scales` and `calibrations` of
            `MultiTaskModel`, `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Dict of the feature to a tensor `(batch, *image_shape)` of
            pixels, of which 255 is white, as `encode` returns it.
        training: Boolean.

    Returns:
        Dict of task to float32 tensor: `(batch, 1)`, the probability of a 1,
        for a binary task, `(batch, classes)` for a multiclass one.

    Example:
    >>> import numpy as np
    >>> from keras_moe.layers import MMoE, TopKGate
    >>> model = ImageClassifier(
    ...     (8, 8, 1),
    ...     {"digit": "multiclass"},
    ...     MMoE(
    ...         {"digit": TopKGate(4, k=2)},
    ...         [keras.layers.Flatten() for _ in range(4)],
    ...     ),
    ...     num_classes={"digit": 10},
    ... )
    >>> images = Images.of(np.zeros((2, 8, 8, 1), np.uint8), {"digit": [7, 0]})
    >>> tuple(model(model.encode(images))["digit"].shape)
    (2, 10)

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, supplement S1.2.
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix D.2.
    """

    # An image is as large as many rows of a table.
    rows_per_step = 512

    def __init__(
        self,
        image_shape: Sequence[int],
        tasks: Mapping[str, Declaration | Task],
        mixture: keras.layers.Layer,
        head_units: Sequence[int] = (50, 50),
        num_classes: Mapping[str, int] | None = None,
        feature: str = "image",
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, mixture, head_units, num_classes, **kwargs)
        self.image_shape = list(image_shape)
        self.feature = feature
        self.heads = self._make_heads()
        self.build()

    @property
    def features(self) -> dict[str, Feature]:
        return {self.feature: Image()}

    def encode(self, split: Images) -> dict[str, np.ndarray]:
        """Returns the model's inputs for images: their pixels by feature."""
        return {self.feature: split.pixels}

    def check_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        shape = inputs[self.feature].shape[1:]
        if list(shape) != self.image_shape:
            raise DataError.at(
                f"feature {self.feature!r}",
                f"images {tuple(self.image_shape)}",
                f"images {shape}",
            )

    def check_fits(self, dataset: AnyDataset) -> None:
        super().check_fits(dataset)
        assert isinstance(dataset, ImageDataset), "its feature is an image"
        shape = dataset.image_shape
        if list(shape) != self.image_shape:
            raise DataError.at(
                dataset.schema.place,
                f"images {tuple(self.image_shape)}, as in training",
                f"images {shape}",
            )

    def build(self, input_shape: Structure = None) -> None:
        """Builds every layer; the shapes follow from the arguments."""
        self._build_towers(
            (None, *self.image_shape), (None, prod(self.image_shape))
        )

    def mixture_inputs(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        pixels = ops.cast(inputs[self.feature], self.compute_dtype) / _WHITE
        return pixels, ops.reshape(pixels, (-1, prod(self.image_shape)))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "image_shape": self.image_shape,
            "feature": self.feature,
        }

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: object = None
    ) -> "ImageClassifier":
        restore = keras.saving.deserialize_keras_object
        return cls(**{**config, "mixture": restore(config["mixture"])})
