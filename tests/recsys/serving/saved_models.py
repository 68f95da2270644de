"""Small SavedModels, written without Keras."""

from pathlib import Path

import tensorflow as tf


def write_saved_model(folder: Path, factor: float) -> None:
    """Writes one whose `watch` is `factor` times the user.

    `film` counts its letters in `rating`, `age` is 30 where it is left out,
    and `tags` are lists of integers.
    """

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = tf.Variable(factor)

        @tf.function(
            input_signature=[
                tf.TensorSpec((None,), tf.int64, "user"),
                tf.TensorSpec((None,), tf.string, "film"),
                tf.TensorSpec((None, None), tf.int64, "tags"),
                tf.TensorSpec((None,), tf.float32, "age"),
            ]
        )
        def serve(
            self,
            user: tf.Tensor,
            film: tf.Tensor,
            tags: tf.Tensor,
            age: tf.Tensor = tf.constant([30.0]),  # noqa: B008
        ) -> dict[str, tf.Tensor]:
            tagged = tf.reduce_sum(tf.cast(tags, tf.float32), 1)
            return {
                "watch": self.factor * tf.cast(user, tf.float32) + tagged,
                "rating": age + tf.cast(tf.strings.length(film), tf.float32),
            }

        @tf.function(
            input_signature=[tf.TensorSpec((None,), tf.string, "film")]
        )
        def twice(self, film: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"title": film + film}

    model = Model()
    tf.saved_model.save(
        model,
        str(folder),
        {"serving_default": model.serve, "twice": model.twice},
    )
