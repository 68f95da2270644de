"""Requests that TensorFlow Serving runs before it serves a model.

They are records of `tensorflow.serving.PredictionLog`. The few of its messages
that a request needs are described here: the package that has all of them,
`tensorflow-serving-api`, brings a server's dependencies along.
"""

from functools import cache
from pathlib import Path
from typing import Any

from recsys.exporting.export_format import Arrays

# Where TensorFlow Serving looks for them.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
BATCH_SIZES = (1, 8, 64, 512)

# On the wire, a tensor is the bytes of its message.
_MESSAGES = """
name: "recsys/warmup.proto" package: "tensorflow.serving" syntax: "proto3"
message_type {
  name: "ModelSpec"
  field { name: "signature_name" number: 3 type: TYPE_STRING }
}
message_type {
  name: "PredictRequest"
  field {
    name: "model_spec" number: 1 type: TYPE_MESSAGE
    type_name: ".tensorflow.serving.ModelSpec"
  }
  field {
    name: "inputs" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
    type_name: ".tensorflow.serving.PredictRequest.InputsEntry"
  }
  nested_type {
    name: "InputsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_BYTES }
  }
}
message_type {
  name: "PredictLog"
  field {
    name: "request" number: 1 type: TYPE_MESSAGE
    type_name: ".tensorflow.serving.PredictRequest"
  }
}
message_type {
  name: "PredictionLog"
  field {
    name: "predict_log" number: 6 type: TYPE_MESSAGE
    type_name: ".tensorflow.serving.PredictLog"
  }
}
"""


def write_warmup(folder: Path, signature: str, inputs: Arrays) -> None:
    """Writes requests of each of `BATCH_SIZES` to a SavedModel.

    Args:
        folder: The SavedModel.
        signature: The signature that they are for.
        inputs: By input, an array with at least as many rows as the largest
            request.
    """
    import tensorflow as tf

    file = folder / WARMUP_FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for size in BATCH_SIZES:
            log = _prediction_log()()
            request = log.predict_log.request
            request.model_spec.signature_name = signature
            for name, values in inputs.items():
                tensor = tf.make_tensor_proto(values[:size])
                request.inputs[name] = tensor.SerializeToString()
            writer.write(log.SerializeToString())


@cache
def _prediction_log() -> Any:
    """The class of the message that a record holds."""
    from google.protobuf import text_format
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()  # Another may have the messages themselves.
    pool.Add(text_format.Parse(_MESSAGES, FileDescriptorProto()))
    return GetMessageClass(
        pool.FindMessageTypeByName("tensorflow.serving.PredictionLog")
    )
