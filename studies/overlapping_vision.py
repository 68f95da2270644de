"""ViT and MLP-Mixer with overlapping experts: figures 5 to 8."""

import itertools
import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from studies.feed_forward import FEED_FORWARDS
from studies.feed_forward import FeedForward
from studies.image_data import ImageData
from studies.image_data import read_images
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.runs import Measures
from studies.runs import Settings
from studies.vision import DEPTH
from studies.vision import MODEL_WIDTH
from studies.vision import mlp_mixer
from studies.vision import vision_transformer

DATA_OF = {
    "5": "svhn",
    "6": "cifar-10",
    "7": "cifar-100",
    "8": "tiny-imagenet",
}
# Units of a ViT's feed-forward layer, channels of a Mixer (appendix A.3).
WIDTHS = {"vit": (512, 3072, 6144), "mixer": (512, 3072)}
EPOCHS = {"vit": 200, "mixer": 500}
LEARNING_RATES = {"vit": 1e-4, "mixer": 1e-3}
KEEP_RATE = 0.5
# That of the code that the paper builds on; it names none of its own.
BATCH_SIZE = 512
# The paper's figures compare the first two.
DEFAULT_KINDS = ("overlapping", "standard")


def train_on_images(
    model: keras.Model, data: ImageData, settings: Mapping[str, Any]
) -> Measures:
    """Trains with Adam and a cosine schedule, and tests after each epoch.

    Args:
        model: From images to logits.
        data: Training and test images.
        settings: "learning rate", "epochs" and "batch size".

    Returns:
        The highest accuracy in percent, which is what the paper's figures
        name, that of the last epoch, the mean over all epochs; the weights
        that are trained and the seconds.
    """
    steps = -(-len(data.train) // settings["batch size"])
    schedule = keras.optimizers.schedules.CosineDecay(
        settings["learning rate"], settings["epochs"] * steps
    )
    model.compile(
        keras.optimizers.Adam(schedule),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    start = time.perf_counter()
    history = model.fit(
        data.train,
        data.train_labels,
        batch_size=settings["batch size"],
        epochs=settings["epochs"],
        validation_data=(data.test, data.test_labels),
        verbose=0,
    ).history["val_accuracy"]
    return {
        "best": 100 * max(history),
        "last": 100 * history[-1],
        "mean": 100 * float(np.mean(history)),
        "weights": sum(int(np.prod(w.shape)) for w in model.trainable_weights),
        "seconds": round(time.perf_counter() - start, 1),
    }


def vision_study(figure: str, options: Options) -> Study:
    """Figures 5 to 8: ViT and MLP-Mixer on four sets of images.

    Args:
        figure: `"5"` to `"8"`.
        options: What is made smaller. `models` are names as `"vit"` or
            `"mixer"`, a slash, and one of `FEED_FORWARDS`.
    """
    data = read_images(DATA_OF[figure], options.folder(), options.most_rows)
    rate = (options.keep_rates or [KEEP_RATE])[0]
    models = options.models or [
        f"{model}/{kind}" for model in WIDTHS for kind in DEFAULT_KINDS
    ]
    plan: list[Settings] = [
        {
            "figure": figure,
            "model": name,
            "width": width,
            "keep rate": rate,
            "depth": options.depth or DEPTH,
            "epochs": options.epochs or EPOCHS[_architecture(name)],
            "learning rate": (
                options.learning_rate or LEARNING_RATES[_architecture(name)]
            ),
            "batch size": options.batch_size or BATCH_SIZE,
            "rows": len(data.train),
            "seed": seed,
        }
        for seed, name in itertools.product(range(options.seeds), models)
        for width in options.widths or WIDTHS[_architecture(name)]
    ]

    def run(settings: Settings) -> Measures:
        given: Mapping[str, Any] = settings
        keras.utils.set_random_seed(given["seed"])
        return train_on_images(_build(given, data), data, given)

    return Study(
        f"ViT and MLP-Mixer on {DATA_OF[figure]}: accuracy (%)",
        plan,
        run,
        by=["width", "model", "weights"],
        digits=dict.fromkeys(("best", "last", "mean"), 1),
        notes=[*_notes(options), *_data_notes(data)],
    )


def _architecture(name: str) -> str:
    """The network of a model's name, "vit" or "mixer"."""
    architecture, _, kind = name.partition("/")
    if architecture not in WIDTHS or kind not in FEED_FORWARDS:
        raise ValueError(
            "`models` must be names such as 'vit/overlapping', of "
            f"{sorted(WIDTHS)} and {FEED_FORWARDS}. Received: {name!r}"
        )
    return architecture


def _build(settings: Mapping[str, Any], data: ImageData) -> keras.Model:
    """A Mixer is as wide as its width; a ViT's is its hidden layers'."""
    architecture, _, kind = settings["model"].partition("/")
    keep_rate, width = settings["keep rate"], settings["width"]
    depth = settings["depth"]
    if architecture == "mixer":
        return mlp_mixer(
            data.image_shape,
            data.num_classes,
            FeedForward(kind, keep_rate),
            model_width=width,
            depth=depth,
        )
    return vision_transformer(
        data.image_shape,
        data.num_classes,
        FeedForward(kind, keep_rate, dropout=0.1),
        hidden_width=width,
        # A smaller network has narrower tokens, too.
        model_width=min(MODEL_WIDTH, width),
        depth=depth,
    )


def _notes(options: Options) -> list[str]:
    published = {
        "epochs": "200 for a ViT, 500 for a Mixer",
        "learning_rate": "1e-4 for a ViT, 1e-3 for a Mixer",
        "keep_rates": [KEEP_RATE],
        "widths": "512, 3072 and 6144 for a ViT, 512 and 3072 for a Mixer",
        "depth": DEPTH,
    }
    batch_size = options.batch_size or BATCH_SIZE
    notes = options.differing(published)
    notes.append(f"batches of {batch_size} images (not published)")
    notes.append("images as they are, no augmentation (not published)")
    if min(options.widths or [MODEL_WIDTH]) < MODEL_WIDTH:
        notes.append(
            f"a ViT of fewer than {MODEL_WIDTH} hidden units has tokens as "
            "narrow as these"
        )
    return notes


def _data_notes(data: ImageData) -> list[str]:
    if data.is_published:
        return []
    return [
        f"{len(data.train):,} training images and {len(data.test):,} for the "
        "test, a part of the published ones"
    ]
