"""What the text below a field becomes."""

from dataclasses import fields

import pytest
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from recsys.commands.options import described_arguments
from recsys.config.fields import field_texts
from recsys.config.fields import with_arguments
from recsys.config.retrieval_config import RetrievalConfig
from recsys.config.tower_config import TowerConfig
from recsys.config.train_config import TrainConfig

TEXTS = ConfigDict(use_attribute_docstrings=True)


@dataclass(kw_only=True, config=TEXTS)
class Base:
    """A base."""

    width: int = 1
    """How wide,
    in metres."""

    silent: int = 2


@with_arguments
@dataclass(config=TEXTS)
class House(Base):
    """A house.

    Raises:
        ValueError: It falls down.
    """

    name: str
    """What it is called: a word that is not too long, of letters and of digits
    and without a space at its ends."""


def test_texts_of_a_class_come_before_those_of_its_base() -> None:
    assert [*field_texts(House)] == ["name", "width"]
    assert field_texts(House)["width"] == "How wide, in metres."
    assert field_texts(int) == {}


def test_they_are_arguments_in_the_docstring() -> None:
    assert House.__doc__ == (
        "A house.\n"
        "\n"
        "    Args:\n"
        "        name: What it is called: a word that is not too long, of "
        "letters and of\n"
        "            digits and without a space at its ends.\n"
        "        width: How wide, in metres.\n"
        "\n"
        "    Raises:\n"
        "        ValueError: It falls down.\n"
        "    "
    )


@pytest.mark.parametrize("shape", [TrainConfig, RetrievalConfig, TowerConfig])
def test_every_field_of_a_configuration_has_a_text(shape: type) -> None:
    texts = field_texts(shape)
    assert {*texts} == {field.name for field in fields(shape)}
    assert all(text.endswith(".") for text in texts.values())


def test_what_python_and_the_command_line_say_is_the_same() -> None:
    doc = str(TrainConfig.__doc__).replace("\n    ", "\n")
    assert described_arguments(doc) == field_texts(TrainConfig)
