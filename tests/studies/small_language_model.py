import keras
import keras_hub

from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from studies.language_model import language_model
from studies.routed_backbone import routed_backbone


def small_model(length: int = 12) -> keras.Model:
    """Returns a language model of bytes, two layers with a mixture in each."""
    backbone = keras_hub.models.GPT2Backbone(261, 2, 2, 8, 16, 0.0, length)
    features = routed_backbone(
        backbone,
        lambda: MoE(
            ExpertChoiceGate(4),
            MLPExperts(4, [8, 8], activation=["gelu", None]),
        ),
    )
    return language_model(backbone, features)
