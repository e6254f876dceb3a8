from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fwshapley._internal.safetensors_file import load_bundle, save_bundle

FACTS = {"names": ["a", "b"], "grid": None, "scale": 0.1}


def test_facts_and_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    shared = torch.arange(6.0).reshape(2, 3)
    tensors = {"view": shared.T, "row": shared[1], "mask": torch.tensor([True, False]), "none": torch.zeros(0, 2)}
    save_bundle(tmp_path / "new" / "file.safetensors", "thing", FACTS, tensors)
    facts, loaded = load_bundle(tmp_path / "new" / "file.safetensors", "thing")
    assert facts == FACTS
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_what_is_saved_is_detached_and_the_original_is_not_touched(tmp_path: Path) -> None:
    tensor = torch.ones(3, requires_grad=True)
    save_bundle(tmp_path / "file", "thing", {}, {"tensor": tensor})
    assert tensor.requires_grad
    assert not load_bundle(tmp_path / "file", "thing")[1]["tensor"].requires_grad


def test_a_file_is_tensors_and_json_and_no_pickle(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_bundle(path, "thing", FACTS, {"tensor": torch.zeros(1)})
    content = path.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    assert json.loads(header)["__metadata__"]["kind"] == "thing"
    assert len(content) == 8 + len(header) + 4


def test_a_missing_file_is_named_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing is missing.*thing"):
        load_bundle(tmp_path / "nothing", "thing")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_bundle(tmp_path / "file", "attribution", {}, {})
    with pytest.raises(ValueError, match=r"file .*attribution.*explainer"):
        load_bundle(tmp_path / "file", "explainer")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_of_another_program_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"tensor": torch.zeros(1)}, tmp_path / "file", metadata=metadata)
    with pytest.raises(ValueError, match="was not written by fwshapley"):
        load_bundle(tmp_path / "file", "thing")


@pytest.mark.parametrize("kept", [0, 4, 60, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "file"
    save_bundle(path, "thing", FACTS, {"tensor": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="file is damaged"):
        load_bundle(path, "thing")


@pytest.mark.parametrize("position", [0, 7, 8, 9, -1, -200])
def test_a_file_with_a_changed_byte_is_refused(tmp_path: Path, position: int) -> None:
    path = tmp_path / "file"
    save_bundle(path, "thing", FACTS, {"tensor": torch.zeros(100)})
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match="file is damaged"):
        load_bundle(path, "thing")


@pytest.mark.parametrize("facts", [{"facts": "{half"}, {}])
def test_facts_that_are_no_json_are_refused(tmp_path: Path, facts: dict[str, str]) -> None:
    metadata = {"format": "fwshapley", "kind": "thing", **facts}
    save_file({"tensor": torch.zeros(1)}, tmp_path / "file", metadata=metadata)
    with pytest.raises(ValueError, match="file is damaged"):
        load_bundle(tmp_path / "file", "thing")


def test_changed_facts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_bundle(path, "thing", {"alpha": 16}, {"tensor": torch.zeros(1)})
    path.write_bytes(path.read_bytes().replace(b"16", b"46"))
    with pytest.raises(ValueError, match="file is damaged"):
        load_bundle(path, "thing")


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_bundle(path, "thing", {}, {"tensor": torch.zeros(1)})
    path.write_bytes(path.read_bytes().replace(b'"version":"3"', b'"version":"9"'))
    with pytest.raises(ValueError, match=r"file .*9.*3"):
        load_bundle(path, "thing")


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"choose (a|another) f\w+ for path"):
            save_bundle(path, "thing", {}, {"tensor": torch.zeros(1)})
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
