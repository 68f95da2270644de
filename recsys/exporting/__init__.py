"""The forms in which a ranker is served, one file each.

A format is a class derived from `ExportFormat`, in a file of its own, with one
line in `recsys.serving.formats.FORMATS`. The stage `recsys.api.export` and the
check `recsys.exporting.verification` know formats by this registry alone.
"""

from pkgutil import resolve_name

from recsys.exporting.export_format import ExportFormat as ExportFormat
from recsys.serving.formats import known_format


def export_format(name: str) -> ExportFormat:
    """Returns the format of that name.

    Raises:
        ValueError: There is no such format.
    """
    format: ExportFormat = resolve_name(known_format(name).writer)(name)
    return format
