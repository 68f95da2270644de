"""An HTTP server of exported models, that needs neither Keras nor keras_moe.

`app` speaks TensorFlow Serving's REST API, `model_store` watches the folder of
the versions, `batcher` puts requests together, and there is a runner for each
format of a model.
"""
