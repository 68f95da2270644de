import math
from collections.abc import Mapping

import keras
import numpy as np

from keras_moe.optimizers import Adam
from keras_moe.types import Tensor
from recsys.config.resolved_config import ResolvedConfig
from recsys.models.feeding import feed
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.sequences.user_sequences import UserSequences
from recsys.sequences.windows import of_user
from recsys.sequences.windows import window_batches
from recsys.training.random_state import begin_random_state_of_epoch
from recsys.training.tower_precision import products_in

_WARMUP = 100  # Steps until the full learning rate.
_CLIP = 5.0  # Largest norm of a step's gradient.
_BETA_2 = 0.98


class TowerTraining(keras.Model):
    """Trains the towers of a `SequenceRetrieval`, as `fit` of Keras does.

    Args:
        retrieval: The retrieval.
        precision: The dtype of products, `"float32"` or `"bfloat16"`.
    """

    def __init__(self, retrieval: SequenceRetrieval, precision: str) -> None:
        super().__init__()
        self.retrieval = retrieval
        self.precision = precision

    def call(
        self, inputs: Mapping[str, Tensor], training: bool | None = None
    ) -> Tensor:
        loss = self.retrieval.next_item_loss(
            inputs["items"],
            inputs["targets"],
            {
                name: inputs[of_user(name)]
                for name in self.retrieval.user_features
            },
            training,
            self.precision,
        )
        self.add_loss(loss)
        return loss

    def fit_epoch(
        self, batches: "WindowBatches", seed: int, epoch: int
    ) -> float:
        """Trains an epoch.

        Args:
            batches: The epoch.
            seed: The seed of the training.
            epoch: The number of the epoch, from 0 on.

        Returns:
            The mean loss of its steps.
        """
        with products_in(self.retrieval.tower, self.precision):
            # Keras, on TensorFlow, takes the length of the first two for all.
            varying = feed(batches, varying=True)
            # After the model is built, which draws as well.
            begins = keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda *_: begin_random_state_of_epoch(
                    seed, epoch
                )
            )
            history = self.fit(
                varying, shuffle=False, verbose=0, callbacks=[begins]
            )
        (loss,) = history.history["loss"]
        return float(loss)


class WindowBatches(keras.utils.PyDataset):
    """The batches of one epoch.

    Args:
        sequences: What users have had in the training split.
        config: The configuration.
        length: Most positions of a history.
        epoch: Integer, which decides, with the seed, on all that is drawn.
    """

    def __init__(
        self,
        sequences: UserSequences,
        config: ResolvedConfig,
        length: int,
        epoch: int,
    ) -> None:
        super().__init__()
        generator = np.random.default_rng([config.seed, epoch])
        self.batches = [
            *window_batches(
                sequences,
                length,
                config.tower_tokens,
                config.unknown_rate,
                generator,
            )
        ]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        return (self.batches[index],)


def create_tower_training(
    retrieval: SequenceRetrieval, config: ResolvedConfig, steps: int
) -> TowerTraining:
    """Returns a compiled training: AdamW, a warm-up and a cosine.

    Args:
        retrieval: The retrieval to train.
        config: The configuration.
        steps: How many steps the whole training has at most.
    """
    warmup = min(_WARMUP, math.ceil(steps / 10))
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, steps - warmup),
        warmup_target=config.tower_learning_rate,
        warmup_steps=warmup,
    )
    training = TowerTraining(retrieval, config.tower_precision)
    training.compile(
        Adam(
            rate,
            # Keras multiplies all weights by 1 where it is 0.
            weight_decay=config.tower_weight_decay or None,
            beta_2=_BETA_2,
            global_clipnorm=_CLIP,
        )
    )
    return training
