"""BERTs with a head, small ones or a preset's, and what they read."""

from dataclasses import asdict
from dataclasses import dataclass
from pathlib import Path

import keras
from keras import ops
from keras_hub.models import BertBackbone
from keras_hub.models import BertTokenizer
from tokenizers import Tokenizer

from recsys.errors.reading import reading
from studies.tokens import bert_tokenizer

# The score of a position that is padding.
_IMPOSSIBLE = -1e9


@dataclass(frozen=True)
class BertSize:
    """The shape of a BERT, as keras-hub's `BertBackbone` takes it.

    The defaults are those of a model that two CPU cores train in a minute.
    """

    num_layers: int = 2
    num_heads: int = 2
    hidden_dim: int = 64
    intermediate_dim: int = 256
    dropout: float = 0.1


def random_bert(
    size: BertSize, vocabulary_size: int, max_length: int
) -> BertBackbone:
    """Makes a BERT of random weights.

    Args:
        size: Its shape.
        vocabulary_size: The number of tokens.
        max_length: The longest input, in tokens.
    """
    return BertBackbone(
        vocabulary_size=vocabulary_size,
        max_sequence_length=max_length,
        **asdict(size),
    )


def load_bert(folder: str | Path) -> tuple[BertBackbone, Tokenizer]:
    """Loads a BERT and its tokenizer from the folder of a preset.

    Args:
        folder: What keras-hub's `save_to_preset` writes, and its downloads
            are: `config.json`, `model.weights.h5`, `tokenizer.json` and
            `assets`. Nothing is downloaded.

    Raises:
        FileNotFoundError: There is no such folder, or it is no preset's.
        FileError: The preset is broken, or not one of a BERT.
    """
    config = Path(folder, "config.json")
    if not config.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a keras-hub preset, with a "
            "config.json. Received: none"
        )
    with reading(folder, "a keras-hub preset of a BERT"):
        backbone = BertBackbone.from_preset(str(folder))
        tokenizer = BertTokenizer.from_preset(str(folder))
    return backbone, bert_tokenizer(
        tokenizer.get_vocabulary(), tokenizer.lowercase
    )


def copy_bert(backbone: BertBackbone) -> BertBackbone:
    """Copies a BERT, its weights included."""
    copied = BertBackbone.from_config(backbone.get_config())
    copied.set_weights(backbone.get_weights())
    return copied


def with_head(
    backbone: keras.Model, num_classes: int | None, dropout: float
) -> keras.Model:
    """Puts a head on a BERT, or on a mixture made of one.

    Args:
        backbone: `BertBackbone`, or what `mixture_of_bert` returns.
        num_classes: The classes of a text, told from the pooled first token;
            `None` scores each token as the start and as the end of an answer.
        dropout: Share of what the head sees that is dropped in training.

    Returns:
        A model of the backbone's inputs. Its outputs are `"logits"`,
        `(b, num_classes)`, or `(b, 2, s)` for starts and ends, in which
        padding is impossible; and `"states"`, a list of `(b, s, d)`: the
        embeddings and what each Transformer layer makes of them.

    References:
        Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers
        for Language Understanding, NAACL 2019, sections 4.1 and 4.2.
    """
    inputs, outputs = backbone.input, backbone.output
    drop = keras.layers.Dropout(dropout)
    if num_classes is not None:
        head = keras.layers.Dense(num_classes, name="head")
        logits = head(drop(outputs["pooled_output"]))
    else:
        head = keras.layers.Dense(2, name="head")
        scores = head(drop(outputs["sequence_output"]))  # (b, s, 2)
        scores = ops.transpose(scores, (0, 2, 1))  # (b, 2, s)
        mask = inputs["padding_mask"][:, None, :]
        logits = ops.where(mask > 0, scores, _IMPOSSIBLE)
    states = [
        layer.output
        for layer in backbone.layers
        if layer.name.startswith(("embeddings_dropout", "transformer_layer_"))
    ]
    return keras.Model(inputs, {"logits": logits, "states": states})
