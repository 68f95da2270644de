"""The forms in which a ranker is served, one file each, by name.

A format is a class derived from `ExportFormat`, in a file of its own, with one
line in `FORMATS`. The stage `recsys.api.export` and the check
`recsys.exporting.verification` know formats by this registry alone.
"""

from recsys.exporting.export_format import ExportFormat as ExportFormat
from recsys.exporting.onnx_model import OnnxFormat
from recsys.exporting.saved_model import SavedModelFormat

FORMATS: dict[str, ExportFormat] = {
    format.name: format for format in (SavedModelFormat(), OnnxFormat())
}


def export_format(name: str) -> ExportFormat:
    """Returns the format of that name.

    Raises:
        ValueError: There is no such format.
    """
    if name not in FORMATS:
        raise ValueError(
            f"`format` must be one of {', '.join(FORMATS)}. "
            f"Received: format={name!r}"
        )
    return FORMATS[name]
