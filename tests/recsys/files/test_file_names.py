import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.files.file_names import file_names
from recsys.files.file_names import short_name

NAMES = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300
)


def test_a_short_name_stays_as_it_is() -> None:
    names = ["click", "watch-time_2.5", "größe"]
    assert file_names(names) == dict(zip(names, names, strict=True))


@pytest.mark.parametrize("letter", ["y", "é", "界", "🎬"])
def test_long_names_are_cut_and_told_apart(letter: str) -> None:
    names = [letter * 250, letter * 249, letter * 249 + "x"]
    files = [*file_names(names).values()]
    assert len(set(files)) == 3
    for file in files:
        assert len(file.encode()) <= 100
        assert file.startswith(letter * 20)


@given(st.lists(NAMES, unique=True, max_size=6))
def test_names_of_files_are_short_safe_and_different(names: list[str]) -> None:
    files = file_names(names)
    assert [*files] == names
    assert len({file.casefold() for file in files.values()}) == len(names)
    for file in files.values():
        assert len(file.encode()) <= 100
        assert not set(file) & set('/\\:*?"<>|\0\n')


@given(NAMES)
def test_the_beginning_alone_does_not_name_a_file(name: str) -> None:
    long = name + "y" * 300
    assert short_name(long, 60) == short_name(long, 60)
    assert short_name(long, 60) != short_name(long + "y", 60)
    assert len(short_name(long, 60).encode()) <= 60


def test_a_name_that_is_no_text() -> None:
    name = os.fsdecode(b"\xff" * 250)
    assert short_name(name, 60).startswith("-")
