"""All that names export formats names those of the registry."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recsys.api import export as stage
from recsys.api.export_two_stage import export_two_stage
from recsys.errors import ExportError
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.formats import FORMATS

pytestmark = pytest.mark.once("tensorflow")

ROOT = Path(__file__).parents[3]
PAGES = ("docs/get_started.md", "docs/serving.md")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_what_writes_it(name: str) -> None:
    form = export_format(name)
    assert isinstance(form, ExportFormat)
    assert (form.name, form.title) == (name, FORMATS[name].title)


def test_a_folder_is_of_one_format() -> None:
    files = [form.file for form in FORMATS.values()]
    assert len({*files}) == len(files)


def test_a_format_may_have_no_two_stages(tmp_path: Path) -> None:
    two_stages: Any = None
    with pytest.raises(ExportError, match=r"`format` must .*format='onnx'"):
        ExportFormat("onnx").write_two_stages(two_stages, tmp_path)


@pytest.mark.parametrize(
    "function", [stage.export, stage.export_to, export_two_stage]
)
def test_unless_told_otherwise_it_is_the_default(
    function: Callable[..., object],
) -> None:
    parameters = inspect.signature(function).parameters
    assert parameters["format"].default == DEFAULT_FORMAT


def test_the_docstring_of_the_stage_lists_all() -> None:
    (listed,) = re.findall(r"format: (.*)\n", str(stage.export.__doc__))
    assert re.findall(r'"(\w+)"', listed) == list(FORMATS)
    assert listed.startswith(f'`"{DEFAULT_FORMAT}"` (default)')


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_show_all_but_the_default(page: str) -> None:
    text = (ROOT / page).read_text()
    shown = set(re.findall(r"--format ([\w-]+)", text))
    assert shown - {DEFAULT_FORMAT} == FORMATS.keys() - {DEFAULT_FORMAT}
