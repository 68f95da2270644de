import re
from pathlib import Path

import pytest

from recsys.errors import FileError
from recsys.tuning.parse_space import parse_space
from recsys.tuning.yaml_file import read_yaml

pytestmark = pytest.mark.once("torch")


def test_numbers_with_exponents_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(
        "learning_rate: {min: 5e-5, max: 5.0e-4, sampling: log}\n"
        "batch_size: [1E+2, 512]\n"
        "architecture: [mmoe, e5]\n"
    )
    assert read_yaml(file) == {
        "learning_rate": {"min": 5e-5, "max": 5e-4, "sampling": "log"},
        "batch_size": [100.0, 512],
        "architecture": ["mmoe", "e5"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"k: 2\nn: [1, 2",
            ", line 2: expected YAML. Received: text that breaks off at column "
            "9 (expected ',' or ']', but got '<stream end>')",
        ),
        (
            b"\xff\xfe\xff",
            ": expected YAML. Received: bytes that are not UTF-8 text",
        ),
        (
            b"[" * 200_000,
            ": expected YAML. Received: one that is nested too deeply",
        ),
        (
            b"k: " + b"9" * 5000,
            ": expected YAML. Received: an integer of thousands of digits",
        ),
        (
            b"k: !!python/object:os.system {}",
            ", line 1: expected YAML. Received: text that breaks off at column "
            "4 (could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object:os.system')",
        ),
    ],
)
def test_other_files_are_one_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "space.yaml"
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_yaml(file)
    assert str(caught.value) == f"{file}{message}"


def test_example_of_the_documentation_is_a_space(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "tuning.md"
    text = page.read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    file = tmp_path / "space.yaml"
    file.write_text(example)
    space = parse_space(read_yaml(file), {"gate": "dselect-k"})
    assert list(space.searched) == [
        "learning_rate",
        "epochs",
        "k",
        "gate_options.gamma",
        "gate_options.entropy_weight",
    ]


@pytest.mark.parametrize(
    "text", ["k: [1]\nk: [2]\n", "gate_options:\n  gamma: [1]\n  gamma: [2]\n"]
)
def test_a_name_is_there_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(text)
    with pytest.raises(FileError, match=r"line [23]: .*'(k|gamma)' twice"):
        read_yaml(file)
