import re
from pathlib import Path

import pytest

from recsys.tuning.parse_space import parse_space
from recsys.tuning.yaml_file import read_yaml


def test_numbers_with_exponents_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(
        "learning_rate: {min: 5e-5, max: 5.0e-4, sampling: log}\n"
        "batch_size: [1E+2, 512]\n"
        "structure: [mmoe, e5]\n"
    )
    assert read_yaml(file) == {
        "learning_rate": {"min": 5e-5, "max": 5e-4, "sampling": "log"},
        "batch_size": [100.0, 512],
        "structure": ["mmoe", "e5"],
    }


@pytest.mark.parametrize("content", [b"k: [1, 2", b"\xff\xfe\xff"])
def test_other_files_are_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"{file}: expected")) as e:
        read_yaml(file)
    assert "\n" not in str(e.value)


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
