from pathlib import Path

import pytest

from recsys.errors import RunError
from recsys.files.atomic import remove_all_unfinished
from recsys.files.folders import check_no_links


def test_what_is_no_link(tmp_path: Path) -> None:
    check_no_links(tmp_path / "none")
    run = tmp_path / "run"
    (run / "plots").mkdir(parents=True)
    (run / "train.log").write_text("")
    (tmp_path / "link").symlink_to(run)
    check_no_links(tmp_path / "link")  # Whoever names it chooses.
    (run / "model.keras").symlink_to(tmp_path / "large-disk.keras")
    check_no_links(run)  # Read, or replaced.


@pytest.mark.parametrize(
    "name", ["plots", "even/a/seed-0", "even/a/seed-0.log", "trials.jsonl"]
)
@pytest.mark.parametrize("exists", [True, False])
def test_links_in_a_folder(name: str, exists: bool, tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", tmp_path / "run" / name
    if exists and link.suffix:
        outside.write_text("kept")
    elif exists:
        outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    is_seen = exists or bool(link.suffix)  # What leads nowhere is a file.
    if not is_seen:
        check_no_links(tmp_path / "run")
        return
    with pytest.raises(RunError, match=f"^{link}: .* a link to {outside}$"):
        check_no_links(tmp_path / "run")


def test_what_others_link_to_is_not_taken_for_left_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".unfinished-model-1").symlink_to(outside)
    remove_all_unfinished(run)
    assert [file.name for file in outside.iterdir()] == ["kept"]
