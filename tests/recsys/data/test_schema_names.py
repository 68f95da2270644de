import pytest

from recsys.data.schema_names import new_task_names


@pytest.mark.parametrize(
    ("columns", "tasks", "expected"),
    [
        (["★ stars", "user", "click"], (), {"★ stars": "stars"}),
        (
            ["It was bought?"],
            ["It was bought?"],
            {"It was bought?": "It_was_bought"},
        ),
        (["click", "click?"], (), {}),  # The name is taken.
        (["buy!", "buy?"], (), {"buy!": "buy"}),
        (["stars"], ["★ star"], {}),  # There is no such column.
        (["★"], ["★"], {}),  # Nothing would be left.
        (["loss?"], ["loss?"], {}),  # Results have that name.
    ],
)
def test_labels_get_names_that_tasks_may_have(
    columns: list[str], tasks: list[str], expected: dict[str, str]
) -> None:
    assert new_task_names(columns, tasks) == expected
