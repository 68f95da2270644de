from collections.abc import Iterator
from pathlib import Path
from typing import Any


def warmup_requests(folder: Path) -> Iterator[dict[str, Any]]:
    """The requests of a SavedModel, as TensorFlow Serving reads them.

    Args:
        folder: The SavedModel.

    Yields:
        By input, an array.
    """
    import tensorflow as tf
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(file)):
        request = PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.signature_name == "serving_default"
        yield {
            name: tf.make_ndarray(tensor)
            for name, tensor in request.inputs.items()
        }
