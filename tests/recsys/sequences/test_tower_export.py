from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import recsys
from recsys.api.export_two_stage import export_two_stage
from recsys.exporting import export_format
from recsys.runs.run import Run
from recsys.serving.formats import FORMATS
from tests.recsys.sequences.conftest import LARGE
from tests.recsys.sequences.conftest import fields
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="starts processes of its own; once is enough",
    ),
]

NOTHING = -(2**63)
TEXTS: list[tuple[list[str], list[str]]] = [  # Histories, and what was seen.
    (["i3", "i4", "i5"], [""]),
    ([f"i{place % 12}" for place in range(20)], ["i8"]),
    ([""], [""]),
    ([], []),
    # An unknown item counts, and what stands for none does not.
    (["", "i7", "", "no item", "i1", "", ""], ["no item", "i2", ""]),
]


def assert_recommended(
    run: Run, folder: Path, format: str, histories: Any, nothing: Any
) -> None:
    """One request for each history, and all of them in one."""
    serve = export_format(format).load(folder)
    dtype = object if nothing == "" else np.int64

    def lists(rows: Any) -> np.ndarray:
        longest = max(map(len, rows))
        filled = [[*row, *[nothing] * (longest - len(row))] for row in rows]
        return np.array(filled, dtype).reshape(len(rows), longest)

    def served(several: Any) -> dict[str, np.ndarray]:
        given = zip(
            ("history", "seen"), zip(*several, strict=True), strict=True
        )
        return serve({name: lists(rows) for name, rows in given})

    together = served(histories)
    assert together.keys() == {"item", "score"}
    for row, (history, seen) in enumerate(histories):
        items = [item for item in history if item != nothing]
        given: Any = {"history": items}
        nobody = "nobody" if nothing == "" else 5
        expected = recsys.recommend(run.folder, nobody, 12, features=given)
        expected = expected[~expected["item"].isin(seen)].head(4)
        alone = served([(history, seen)])
        for outputs in (
            {name: values[row] for name, values in together.items()},
            {name: values[0] for name, values in alone.items()},
        ):
            received = [
                item.decode() if isinstance(item, bytes) else item
                for item in outputs["item"].tolist()
            ]
            assert received == expected["item"].tolist()
            np.testing.assert_allclose(
                outputs["score"], expected["score"], rtol=1e-4
            )
    none = serve({"history": lists([["i1"] if nothing == "" else [1]])[:0]})
    assert none["item"].shape == none["score"].shape == (0, 4)


@pytest.mark.parametrize("format", FORMATS)
def test_two_stages_take_histories_of_any_length(
    run: Run, tmp_path: Path, format: str
) -> None:
    out = tmp_path / "tower"
    folder = export_two_stage(
        run.folder, out, top=4, candidates=12, format=format
    )
    assert_recommended(run, folder, format, TEXTS, "")
    client = Client.of(out, name="m")
    rows = [{"history": history, "seen": seen} for history, seen in TEXTS]
    answers = client.predict({"instances": rows}).json()["predictions"]
    for answer, (history, seen) in zip(answers, TEXTS, strict=True):
        given: Any = {"history": [item for item in history if item]}
        expected = recsys.recommend(run.folder, "nobody", 12, features=given)
        expected = expected[~expected["item"].isin(seen)].head(4)
        assert answer["item"] == expected["item"].tolist()


@pytest.mark.parametrize("folder", ["integers"], indirect=True)
@pytest.mark.parametrize(
    "options",
    [{"tower": "hstu"}, {"tower_gate": "top-k", "tower_experts": 3}],
    ids=["hstu", "sparse"],
)
def test_onnx_files_of_other_blocks(
    folder: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    recsys.train(fields(folder, tmp_path / "run", tower_epochs=1, **options))
    run = Run(tmp_path / "run")
    served = export_two_stage(
        run.folder, tmp_path / "served", top=4, candidates=12, format="onnx"
    )
    of_texts = {"": NOTHING, "no item": 7}
    histories = [
        [
            [
                of_texts[item] if item in of_texts else LARGE + int(item[1:])
                for item in items
            ]
            for items in row
        ]
        for row in TEXTS
    ]
    assert_recommended(run, served, "onnx", histories, NOTHING)
