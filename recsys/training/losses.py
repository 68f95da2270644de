import keras

# The loss of each type of task.
LOSSES = {
    "binary": keras.losses.BinaryCrossentropy,
    "regression": keras.losses.MeanSquaredError,
    "multiclass": keras.losses.SparseCategoricalCrossentropy,
}
