import pytest

from recsys.exporting.input_names import input_names


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        ("age", "age"),
        ("user id", "user_id"),
        ("ad.slot-1", "ad_slot_1"),
        ("1st", "input_1st"),
        ("_private", "input_private"),
        ("Größe (cm)", "Gro_e__cm_"),
        ("café", "cafe"),
        ("年齢", "input_"),
        ("", "input_"),
        ("self", "self_"),
        ("from", "from_"),
    ],
)
def test_name_of_one_feature(feature: str, expected: str) -> None:
    assert input_names([feature]) == {feature: expected}


def test_names_that_are_valid_are_kept() -> None:
    assert input_names(["a b", "a.b", "a_b", "a_b_2"]) == {
        "a b": "a_b_3",
        "a.b": "a_b_4",
        "a_b": "a_b",
        "a_b_2": "a_b_2",
    }


def test_case_alone_does_not_tell_inputs_apart() -> None:
    """Nor does TensorFlow tell the nodes of a graph apart by it."""
    assert input_names(["User", "user", "USER"]) == {
        "User": "User",
        "user": "user_2",
        "USER": "USER_3",
    }


def test_names_of_other_alphabets_stay_apart() -> None:
    assert input_names(["年齢", "性別"]) == {
        "年齢": "input_",
        "性別": "input__2",
    }
