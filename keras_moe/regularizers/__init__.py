"""Auxiliary losses of gates: pure functions of their weights or logits."""

from keras_moe.regularizers.importance_loss import (
    importance_loss as importance_loss,
)
from keras_moe.regularizers.load_balance_loss import (
    load_balance_loss as load_balance_loss,
)
from keras_moe.regularizers.load_loss import load_loss as load_loss
from keras_moe.regularizers.router_z_loss import router_z_loss as router_z_loss
from keras_moe.regularizers.trimmed_lasso import trimmed_lasso as trimmed_lasso
