from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fwshapley.cli.pictures.files import SIDE, Look, Size, load_picture, look_at, make_thumbnail
from fwshapley.cli.pictures.labeled_folder import find_pictures


def write_picture(path: Path, size: tuple[int, int] = (8, 8), mode: str = "L") -> Path:
    """Write a picture of noise, (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)).save(path)
    return path


def test_a_folder_says_which_class_a_picture_is_of(tmp_path: Path) -> None:
    for name in ("10/a.png", "2/b.png", "2/more/c.jpg", "empty/note.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("") if name.endswith("txt") else write_picture(tmp_path / name)
    found = find_pictures(tmp_path)
    assert found.classes.names == ("2", "10")
    assert found.names == ("10/a.png", "2/b.png", "2/more/c.jpg")
    assert found.labels == ["10", "2", "2"]
    assert found.y.tolist() == [1, 0, 0]
    assert found.notes == ("folders without pictures left out: empty",)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "contains no pictures"),
        (["a/1.png", "2.png", "3.png"], "2 pictures in .* without a label: 2.png, 3.png. Put each into the folder of"),
        (["a/1.png", "a/b/2.png"], "every picture in .* is in the folder a: at least 2 classes"),
    ],
)
def test_folders_without_classes_are_explained(names: list[str], complaint: str, tmp_path: Path) -> None:
    for name in names:
        write_picture(tmp_path / name)
    with pytest.raises(ValueError, match=complaint):
        find_pictures(tmp_path)


def test_a_reference_has_the_same_classes_or_some_of_them(tmp_path: Path) -> None:
    for name in ("all/a/1.png", "all/b/1.png", "some/b/1.png", "other/c/1.png"):
        write_picture(tmp_path / name)
    folder = find_pictures(tmp_path / "all")
    reference = folder.find_reference(tmp_path / "some")
    assert reference.y.tolist() == [1]
    assert "no picture has label a: pictures of all with it get negative values or 0" in reference.notes[0]
    with pytest.raises(ValueError, match=r"has classes that .*all does not have: c"):
        folder.find_reference(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        folder.find_reference(tmp_path / "nowhere")


def test_a_digest_tells_names_and_contents(tmp_path: Path) -> None:
    write_picture(tmp_path / "a" / "1.png")
    path = write_picture(tmp_path / "b" / "1.png")
    first = find_pictures(tmp_path).digest()
    assert find_pictures(tmp_path).digest() == first
    path.rename(path.with_name("2.png"))
    second = find_pictures(tmp_path).digest()
    write_picture(path.with_name("2.png"), (9, 9))
    assert len({first, second, find_pictures(tmp_path).digest()}) == 3


def test_a_look_tells_sizes_and_colors(tmp_path: Path) -> None:
    gray, colored = write_picture(tmp_path / "1.png"), write_picture(tmp_path / "2.png", (9, 5), "RGB")
    assert look_at([gray]) == Look(frozenset({Size(8, 8)}), 1, "gray")
    assert look_at([gray, colored]) == Look(frozenset({Size(8, 8), Size(5, 9)}), 1, "rgb")


@pytest.mark.parametrize(
    ("size", "mode", "kind", "shown"),
    [((8, 4), "L", "png", (96, 48)), ((30, 30), "RGB", "png", (90, 90)), ((300, 150), "RGB", "jpeg", (96, 48))],
)
def test_thumbnails_are_small_but_not_tiny(
    size: tuple[int, int], mode: str, kind: str, shown: tuple[int, int], tmp_path: Path
) -> None:
    path = write_picture(tmp_path / "1.png", size, mode)
    thumbnail = make_thumbnail(path)
    assert thumbnail.kind == kind
    picture = Image.open(io.BytesIO(thumbnail.data))
    assert picture.size == shown
    assert max(picture.size) <= SIDE
    assert picture.mode == load_picture(path).mode == mode
