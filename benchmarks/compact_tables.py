"""Exports a run with tables in each type, and times the models side by side.

    KERAS_BACKEND=tensorflow python benchmarks/compact_tables.py --run RUN

Prints one JSON line for every (format, type of the tables, batch size): the
bytes of the tables, how far the losses on the test split are from those with
float32, the median, the 95th and the 99th percentile of the latency, and the
median over that with float32. The models of a format are called in turn, for
`--seconds` at each batch size.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from inference import measure
from report import report

from recsys.api.export import export_to
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.trial_rows import drawn_rows
from recsys.files.json_files import read_json
from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import TABLE_TYPES
from recsys.runs.run import Run
from recsys.serving.formats import FORMATS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 512])
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    ranker = Run(arguments.run).load_ranker()
    with tempfile.TemporaryDirectory() as scratch:
        for name in FORMATS:
            form, models, costs = export_format(name), {}, {}
            for tables in TABLE_TYPES:
                out = Path(scratch, name, tables)
                folder, _ = export_to(arguments.run, out, name, tables=tables)
                models[tables] = form.load(folder)
                if tables != FLOAT32:
                    costs[tables] = _cost(folder, tables)
            for batch in arguments.batch:
                raw = ServedRanker(ranker).raw(drawn_rows(ranker, batch))
                calls = {
                    tables: lambda run=run, raw=raw: run(raw)
                    for tables, run in models.items()
                }
                times = measure(calls, batch, arguments.seconds)
                first = times[FLOAT32]["p50_ms"]
                for tables, values in times.items():
                    report(
                        format=name,
                        tables=tables,
                        batch=batch,
                        **costs.get(tables, {}),
                        **values,
                        times_float32=round(values["p50_ms"] / first, 3),
                    )


def _cost(folder: Path, tables: str) -> dict[str, Any]:
    """Sizes and changes of losses, as the export has measured them."""
    cost = read_json(folder / "assets.extra" / "tables.json")
    sizes = cost["bytes"]
    return {
        "bytes": sizes[tables],
        "times_smaller": round(sizes[FLOAT32] / sizes[tables], 3),
        "changes": {
            name: values[tables] / values[FLOAT32] - 1
            for name, values in cost["test"].items()
        },
    }


if __name__ == "__main__":
    main()
