import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recsys.errors import DataError
from studies.tiny_imagenet import read_tiny_imagenet

IDS = ["n01443537", "n01629819"]


def write_image(file: Path, value: int, mode: str = "RGB") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    color = value if mode == "L" else (value, 0, 255)
    Image.new(mode, (64, 64), color).save(file, quality=100, subsampling=0)


def write_tiny_imagenet(root: Path) -> None:
    for wordnet_id in IDS:
        for i in range(3):
            name = f"train/{wordnet_id}/images/{wordnet_id}_{i}.JPEG"
            write_image(root / name, 40 * i)
    write_image(root / "val/images/val_0.JPEG", 200)
    write_image(root / "val/images/val_1.JPEG", 70, mode="L")
    (root / "wnids.txt").write_text("\n".join(IDS))
    boxes = "\t0\t0\t63\t63\n"
    (root / "val/val_annotations.txt").write_text(
        f"val_0.JPEG\t{IDS[1]}{boxes}val_1.JPEG\t{IDS[0]}{boxes}"
    )


@pytest.mark.parametrize("inner", [".", "tiny-imagenet-200"])
def test_classes_are_the_lines_of_the_ids(tmp_path: Path, inner: str) -> None:
    write_tiny_imagenet(tmp_path / inner)
    train, validation = read_tiny_imagenet(tmp_path)
    assert train.pixels.shape == (6, 64, 64, 3)
    assert train["class"].tolist() == [0, 0, 0, 1, 1, 1]
    assert validation["class"].tolist() == [1, 0]
    red = train.pixels[:, 30, 30, 0].astype(int)
    np.testing.assert_allclose(red, [0, 40, 80] * 2, atol=3)
    # The grey image has three channels that are the same.
    np.testing.assert_allclose(validation.pixels[1], 70, atol=3)


@pytest.mark.parametrize(
    ("broken", "content", "message"),
    [
        (
            "val/val_annotations.txt",
            b"val_0.JPEG\tn9\t0\t0\t1\t1\n",
            "line 1: expected an id of wnids.txt after the name of a file. "
            "Received: 'n9'",
        ),
        ("val/val_annotations.txt", b"", "expected at least one line"),
        ("val/images/val_0.JPEG", b"no image", "expected a JPEG image"),
        ("wnids.txt", b"n0", "expected images *.JPEG"),
    ],
)
def test_a_broken_file(
    tmp_path: Path, broken: str, content: bytes, message: str
) -> None:
    write_tiny_imagenet(tmp_path)
    (tmp_path / broken).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        read_tiny_imagenet(tmp_path)


def test_an_image_of_another_size(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    file = tmp_path / "val/images/val_1.JPEG"
    Image.new("RGB", (64, 32)).save(file)
    with pytest.raises(DataError, match=r"val_1.*64 x 64 pixels.*\(64, 32\)"):
        read_tiny_imagenet(tmp_path)


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    (tmp_path / "val/images/val_0.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_0\.JPEG: expected an image"):
        read_tiny_imagenet(tmp_path)
