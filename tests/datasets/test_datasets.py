"""Data sets from small files of the official formats, made here, and from a server of this process."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from fwshapley import datasets
from fwshapley.datasets import catalog, downloads
from fwshapley.datasets.catalog import DATASETS, Name
from fwshapley.datasets.downloads import RemoteFile
from fwshapley.datasets.formats import Split

COUNTS: dict[Split, int] = {"train": 10, "test": 4}
SPLITS: list[Split] = ["train", "test"]


def made(name: Name, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images that differ in every pixel, and labels."""
    generator = np.random.default_rng(COUNTS[split])
    shape = (COUNTS[split], *DATASETS[name].shape)
    return generator.integers(0, 256, shape, dtype=np.uint8), generator.permutation(10)[: COUNTS[split]]


def bin_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    for split in SPLITS:
        images, labels = made("cifar10", split)
        names = ["test_batch.bin"] if split == "test" else [f"data_batch_{number}.bin" for number in range(1, 6)]
        for name, x, y in zip(
            names, np.array_split(images, len(names)), np.array_split(labels, len(names)), strict=True
        ):
            records = [bytes([label]) + image.tobytes() for image, label in zip(x, y, strict=True)]
            (folder / name).write_bytes(b"".join(records))


def cifar_folder(root: Path) -> None:
    bin_files(root / "cifar-10-batches-bin")


def cifar_archive(root: Path) -> None:
    bin_files(root / "scratch")
    (root / "cifar10").mkdir()
    with tarfile.open(root / "cifar10" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(root / "scratch", "cifar-10-batches-bin")


def svhn_files(root: Path) -> None:
    for split in SPLITS:
        images, labels = made("svhn", split)
        y = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
        savemat(root / f"{split}_32x32.mat", {"X": images.transpose(2, 3, 1, 0), "y": y}, do_compression=True)


def idx(array: NDArray[np.integer]) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def fashion_files(root: Path, *, zipped: bool = True, folder: str = "fashion_mnist") -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = made("fashion_mnist", "train" if split == "train" else "test")
        for name, content in (("images-idx3-ubyte", idx(images[:, 0])), ("labels-idx1-ubyte", idx(labels))):
            path = root / folder / f"{prefix}-{name}"
            path.with_name(path.name + ".gz" * zipped).write_bytes(gzip.compress(content) if zipped else content)


def packed_arrays(root: Path, name: Name) -> None:
    arrays: dict[str, Any] = {}
    for split in SPLITS:
        images, labels = made(name, split)
        last = images.transpose(0, 2, 3, 1)
        arrays |= {f"x_{split}": last[..., 0] if last.shape[3] == 1 else last, f"y_{split}": labels.astype(np.uint8)}
    np.savez(root / f"{name}.npz", **arrays)


def mosaics(root: Path, *, coding: str = "png", tiles: int = 12) -> Path:
    """Packed CIFAR-10: mosaics of two by three tiles; PNG instead of JPEG, so that pixels come back as they were."""
    arrays: dict[str, Any] = {}
    for split in SPLITS:
        images, labels = made("cifar10", split)
        cells = np.zeros((tiles, 32, 32, 3), np.uint8)
        cells[: len(images)] = images.transpose(0, 2, 3, 1)[:tiles]
        files = []
        for six in cells.reshape(-1, 2, 3, 32, 32, 3):
            file = io.BytesIO()
            Image.fromarray(six.transpose(0, 2, 1, 3, 4).reshape(64, 96, 3)).save(file, coding)
            files.append(np.frombuffer(file.getvalue(), np.uint8))
        offsets = np.cumsum([0, *map(len, files)])
        arrays |= {f"y_{split}": labels, f"blob_{split}": np.concatenate(files), f"offsets_{split}": offsets}
    np.savez(root / "cifar10_jpeg95.npz", **arrays)
    return root / "cifar10_jpeg95.npz"


FILES: dict[str, tuple[Name, Callable[[Path], object]]] = {
    "CIFAR-10, unpacked": ("cifar10", cifar_folder),
    "CIFAR-10, archive": ("cifar10", cifar_archive),
    "CIFAR-10, arrays": ("cifar10", partial(packed_arrays, name="cifar10")),
    "CIFAR-10, mosaics": ("cifar10", mosaics),
    "SVHN": ("svhn", svhn_files),
    "Fashion-MNIST": ("fashion_mnist", fashion_files),
    "Fashion-MNIST, unpacked": ("fashion_mnist", partial(fashion_files, zipped=False, folder="FashionMNIST/raw")),
    "Fashion-MNIST, arrays": ("fashion_mnist", partial(packed_arrays, name="fashion_mnist")),
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("files", FILES)
def test_every_format_gives_the_images_that_were_written(files: str, split: Split, tmp_path: Path) -> None:
    name, write = FILES[files]
    write(tmp_path)
    found = datasets.load(name, tmp_path, split=split, download=False)
    images, labels = made(name, split)
    assert torch.equal(found.images, torch.from_numpy(images))
    assert torch.equal(found.labels, torch.from_numpy(labels))
    assert (found.images.dtype, found.labels.dtype) == (torch.uint8, torch.int64)
    assert found.images.is_contiguous()
    assert len(found.classes) == 10


def test_a_file_may_take_the_place_of_the_root(tmp_path: Path) -> None:
    path = mosaics(tmp_path).rename(tmp_path / "mine.npz")
    assert len(datasets.load("cifar10", path).labels) == 10
    with pytest.raises(FileNotFoundError, match=r"root=.*other\.npz"):
        datasets.load("cifar10", tmp_path / "other.npz")
    (tmp_path / "test_batch.bin").touch()
    with pytest.raises(ValueError, match=r"root must be .*test_batch\.bin"):
        datasets.load("cifar10", tmp_path / "test_batch.bin")


def test_jpeg_is_close(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 32)[:, None, None] * np.ones((32, 32, 3))
    file = io.BytesIO()
    Image.fromarray(smooth.astype(np.uint8)).save(file, "jpeg", quality=95, subsampling=0)
    blob = np.frombuffer(file.getvalue(), np.uint8)
    np.savez(tmp_path / "x.npz", y_test=np.array([3]), blob_test=blob, offsets_test=np.array([0, len(blob)]))
    images, labels = datasets.read_packed(tmp_path / "x.npz", "test")
    assert labels.tolist() == [3]
    assert np.abs(images[0].transpose(1, 2, 0) - smooth).max() < 5


def test_the_root_is_the_variables_or_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    svhn_files(tmp_path)
    monkeypatch.setenv("FWSHAPLEY_DATA", str(tmp_path))
    assert len(datasets.load("svhn").labels) == 10
    monkeypatch.delenv("FWSHAPLEY_DATA")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(
        FileNotFoundError, match=r"SVHN is not in .*home/\.cache/fwshapley: put http\S*train_32x32\.mat"
    ):
        datasets.load("svhn", download=False)


def test_pickles_are_not_read_and_mnist_is_not_taken_for_fashion(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(
        FileNotFoundError, match=r"put \S*binary\.tar\.gz into \S*cifar10 \(cifar-10-batches-py is pickled"
    ):
        datasets.load("cifar10", tmp_path, download=False)
    fashion_files(tmp_path, folder=".")
    with pytest.raises(FileNotFoundError, match="Fashion-MNIST is not in"):
        datasets.load("fashion_mnist", tmp_path, download=False)


@pytest.mark.usefixtures("unchecked")
def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got 'cifar-10' \(did you mean 'cifar10'\?\)"):
        datasets.load("cifar-10", tmp_path)  # type: ignore[arg-type] # on purpose
    with pytest.raises(ValueError, match="name must be one of 'cifar10', 'fashion_mnist', 'svhn'; got 'imagenet'"):
        datasets.load("imagenet", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'valid'"):
        datasets.load("svhn", tmp_path, split="valid")  # type: ignore[arg-type]


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def put(content: bytes, path: Path) -> None:
    path.write_bytes(content)


IMAGES, LABELS = "fashion_mnist/train-images-idx3-ubyte.gz", "fashion_mnist/train-labels-idx1-ubyte.gz"
ARCHIVE, BATCH = "cifar10/cifar-10-binary.tar.gz", "cifar-10-batches-bin/data_batch_3.bin"
BLANK = np.zeros((10, 28, 28), np.uint8)


@pytest.mark.parametrize(
    ("files", "path", "damage", "complaint"),
    [
        (
            "CIFAR-10, unpacked",
            BATCH,
            cut,
            r"data_batch_3\.bin is cut off.* 4097 .* 3073",
        ),
        ("CIFAR-10, unpacked", BATCH, partial(put, b"\x0a" + bytes(3072)), "not CIFAR-10: its labels are 0 to 10"),
        ("CIFAR-10, archive", ARCHIVE, cut, r"binary\.tar\.gz is cut off"),
        ("CIFAR-10, archive", ARCHIVE, partial(put, b"<html>"), r"binary\.tar\.gz is cut off"),
        ("CIFAR-10, arrays", "cifar10.npz", cut, r"cifar10\.npz is damaged or cut off"),
        ("CIFAR-10, mosaics", "cifar10_jpeg95.npz", partial(put, b"words"), r"cifar10_jpeg95\.npz is not an npz file"),
        ("SVHN", "train_32x32.mat", cut, r"train_32x32\.mat is cut off"),
        ("SVHN", "train_32x32.mat", partial(put, b"<html>"), r"train_32x32\.mat is cut off, or not a MATLAB file"),
        ("SVHN", "train_32x32.mat", lambda path: savemat(path, {"X": 1}), r"train_32x32\.mat has no variable 'y'"),
        ("Fashion-MNIST", IMAGES, cut, r"images-idx3-ubyte\.gz is cut off"),
        ("Fashion-MNIST", IMAGES, partial(put, b"<html>"), r"images-idx3-ubyte\.gz is cut off, or not gzipped"),
        (
            "Fashion-MNIST",
            IMAGES,
            partial(put, gzip.compress(idx(BLANK)[:-1])),
            "7840 bytes.* 7839",
        ),
        (
            "Fashion-MNIST",
            IMAGES,
            partial(put, gzip.compress(idx(BLANK[0]))),
            "3 axes.* 0x0802",
        ),
        ("Fashion-MNIST", LABELS, partial(put, gzip.compress(b"")), "1 axes.* 0x0000"),
        ("Fashion-MNIST", LABELS, partial(put, gzip.compress(idx(BLANK[0, 0]))), r"its images are \(10, 1, 28, 28\)"),
    ],
)
def test_damaged_files_are_refused_by_name(
    files: str, path: str, damage: Callable[[Path], None], complaint: str, tmp_path: Path
) -> None:
    name, write = FILES[files]
    write(tmp_path)
    damage(tmp_path / path)
    with pytest.raises(ValueError, match=complaint):
        datasets.load(name, tmp_path, download=False)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    cifar_archive(tmp_path)
    with tarfile.open(tmp_path / ARCHIVE, "w:gz") as archive:
        archive.add(tmp_path / "scratch" / "test_batch.bin", "cifar-10-batches-bin/test_batch.bin")
    with pytest.raises(ValueError, match=r"data_batch_1\.bin, data_batch_2\.bin"):
        datasets.load("cifar10", tmp_path)
    assert len(datasets.load("cifar10", tmp_path, split="test").labels) == 4


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"y_train": np.zeros(3)}, "y_train, and x_train or blob_train with offsets_train"),
        (
            {"y_train": np.zeros(3), "x_train": np.zeros((3, 8, 8))},
            r"contain images as bytes, got float64",
        ),
        ({"y_train": np.zeros(3), "x_train": np.zeros((2, 8, 8), np.uint8)}, "3 labels of 2 images"),
        (
            {"y_train": np.array([object()]), "x_train": np.zeros((1, 8, 8), np.uint8)},
            r"packed\.npz .* Python objects",
        ),
        (
            {"y_train": np.zeros(1), "blob_train": np.zeros(9, np.uint8), "offsets_train": np.array([0, 9])},
            "a mosaic cannot be read",
        ),
    ],
)
def test_packed_files_that_lack_something_are_refused(arrays: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "packed.npz", **arrays)
    with pytest.raises(ValueError, match=complaint):
        datasets.read_packed(tmp_path / "packed.npz")


def test_other_things_than_npz_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"array\.npy is not an npz file"):
        datasets.read_packed(tmp_path / "array.npy")
    with pytest.raises(ValueError, match="is a folder, not an npz file"):
        datasets.read_packed(tmp_path)
    with pytest.raises(FileNotFoundError):
        datasets.read_packed(tmp_path / "nothing.npz")


def test_mosaics_say_that_they_need_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mosaics(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fwshapley\[images\]'"):
        datasets.load("cifar10", tmp_path)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Address of a server of SVHN files in tmp_path/web."""
    web = tmp_path / "web"
    web.mkdir()
    svhn_files(web)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(web))) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def publish(monkeypatch: pytest.MonkeyPatch, address: str, md5: str) -> None:
    """Let SVHN's files to train be at another address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    file = RemoteFile(f"{address}/train_32x32.mat", md5)
    monkeypatch.setitem(catalog.DATASETS, "svhn", replace(DATASETS["svhn"], remote={"train": (file,)}))


def test_what_is_missing_is_downloaded_once(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (tmp_path / "web" / "train_32x32.mat").read_bytes()
    monkeypatch.setattr(downloads, "CHUNK_BYTES", 1000)
    publish(monkeypatch, server, hashlib.md5(content).hexdigest())  # noqa: S324 - as their authors do
    root = tmp_path / "root"
    found = datasets.load("svhn", root)
    assert torch.equal(found.images, torch.from_numpy(made("svhn", "train")[0]))
    assert [str(path.relative_to(root)) for path in root.rglob("*")] == ["svhn", "svhn/train_32x32.mat"]
    publish(monkeypatch, "http://127.0.0.1:1", "")
    assert torch.equal(datasets.load("svhn", root).images, found.images)


def test_a_download_of_another_content_is_not_kept(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, server, "0" * 32)
    with pytest.raises(ValueError, match=r"train_32x32\.mat .*md5 is \w{32}, expected 0000"):
        datasets.load("svhn", tmp_path / "root")
    assert not list((tmp_path / "root" / "svhn").iterdir())


def test_another_data_set_of_the_same_shape_is_known_by_its_number_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed_arrays(tmp_path, "cifar10")
    monkeypatch.setitem(DATASETS, "svhn", replace(DATASETS["svhn"], counts=COUNTS))
    with pytest.raises(ValueError, match=r"cifar10\.npz seems to be SVHN, not CIFAR-10: .* 10 images"):
        datasets.load("cifar10", tmp_path)


@pytest.mark.parametrize("place", ["/nowhere", ""])
def test_without_the_internet_it_says_which_file_to_put_where(
    place: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, server + place if place else "http://127.0.0.1:1", "0" * 32)
    with pytest.raises(ConnectionError) as failure:
        datasets.load("svhn", tmp_path / "root")
    message = str(failure.value)
    assert ("File not found" if place else "refused") in message
    there = f"train_32x32.mat into {tmp_path / 'root' / 'svhn'}, or a packed svhn.npz into {tmp_path / 'root'}"
    assert message.endswith(there)
    assert not (tmp_path / "root").exists()


def test_official_files_are_those_of_the_right_split() -> None:
    for source in DATASETS.values():
        for split in SPLITS:
            assert all(len(file.md5) == 32 for file in source.remote[split])
            names = tuple(file.name for file in source.remote[split])
            assert names in source.stored[split]
