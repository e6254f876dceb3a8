"""Inputs as people have them: layouts, lists, Datasets, DataLoaders, pictures with a transform, single images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import clone
from torch import Tensor
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import fwshapley as fw
from fwshapley.explanation.inputs.input_checks import hold_out
from fwshapley.explanation.inputs.input_reading import read_inputs
from models import ImageModel, rows, seeded

GRID = fw.grid(8, 6, patch=2)
BYTES = torch.randint(256, (24, 3, 8, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
X = BYTES / 255
PICTURES = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in BYTES]


def to_tensor(picture: Any) -> Tensor:  # noqa: ANN401 - a PIL image, or bytes
    """Return what torchvision's ToTensor returns."""
    return torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1).float() / 255


class Items(Dataset[Any]):
    """A Dataset of anything."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401 - any item
        return self.items[number]


class Stream(IterableDataset[Tensor]):
    """A Dataset that does not know its length."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(X)


def fit(explainer: fw.FeatureExplainer, x: Any = X, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - any inputs
    options = {"batch_size": 8, "n_coalitions": 2, "progress": False} | options
    return explainer.fit(x, budget=fw.Budget(steps=2), **options)


def new(**options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - any argument
    return fw.FeatureExplainer(seeded(ImageModel, 3, 3), GRID, device="cpu", **options)


@pytest.fixture(scope="module")
def fitted() -> fw.FeatureExplainer:
    return fit(new(transform=to_tensor))


FORMS: dict[str, Callable[[], Any]] = {
    "array": X.numpy,
    "double": X.double,
    "channels last": lambda: X.permute(0, 2, 3, 1),
    "list of tensors": lambda: list(X),
    "tuple of arrays, channels last": lambda: tuple(X.permute(0, 2, 3, 1).numpy()),
    "Dataset with labels": lambda: TensorDataset(X, torch.zeros(24)),
    "Dataset of tensors": lambda: Items(list(X)),
    "Dataset of dicts": lambda: Items([{"label": 0, "pixel_values": image} for image in X]),
    "Dataset of pictures": lambda: Items([(picture, 3) for picture in PICTURES]),
    "Dataset without a length": Stream,
    "DataLoader": lambda: DataLoader(TensorDataset(X, torch.zeros(24)), batch_size=7),
    "DataLoader of tensors": lambda: DataLoader(Items(list(X)), batch_size=24),
    "DataLoader without a length": lambda: DataLoader(Stream(), batch_size=5),
    "list of pictures": lambda: PICTURES,
    "bytes": lambda: BYTES.permute(0, 2, 3, 1).numpy(),
    "list of bytes": lambda: [np.asarray(picture) for picture in PICTURES],
    "DataLoader of bytes": lambda: DataLoader(Items(list(BYTES.permute(0, 2, 3, 1))), batch_size=7),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("channels", [None, 3])
def test_inputs_in_any_form_are_the_same(name: str, channels: int | None) -> None:
    read = read_inputs(FORMS[name](), "x", players=GRID, channels=channels, transform=to_tensor)
    assert_close(torch.as_tensor(read.x).float(), X)


ONE: dict[str, Callable[[], Any]] = {
    "channels first": lambda: X[3],
    "channels last": lambda: X[3].permute(1, 2, 0).numpy(),
    "picture": lambda: PICTURES[3],
    "list": lambda: [X[3]],
    "bytes": lambda: np.asarray(PICTURES[3]),
}


@pytest.mark.parametrize("name", ONE)
def test_one_image_is_a_batch_of_one(name: str, fitted: fw.FeatureExplainer) -> None:
    attribution = fitted.explain(ONE[name](), outputs=[0, 2])
    assert attribution.values.shape == (1, 12, 2)
    assert_close(attribution.values, fitted.explain(X[3:4], outputs=[0, 2]).values)
    assert_close(attribution.inputs, X[3:4])
    full = torch.ones(1, 12, dtype=torch.bool)
    assert_close(fitted.game(ONE[name]())(full), fitted.game(X[3:4])(full))
    assert fitted.usable(ONE[name]()).tolist() == [True]


def test_every_method_takes_pictures(fitted: fw.FeatureExplainer) -> None:
    assert_close(fitted.predictions(PICTURES).model, fitted.predictions(X).model)
    options: dict[str, Any] = {"n_calls": 100, "progress": False}
    assert_close(fitted.refine(PICTURES[:2], **options).values, fitted.refine(X[:2], **options).values)
    assert fitted.calibrate(PICTURES[:9], n_inputs=8, n_calls=100, progress=False).n_inputs == 8
    assert fitted.attribute(PICTURES[0], 1).shape == (1, 3, 8, 6)
    assert fitted(PICTURES[:2], outputs=[1]).values.shape == (2, 12)
    assert fitted.distill(PICTURES, budget=fw.Budget(steps=1), progress=False).players_.n_players == 12


def test_a_fit_of_pictures_is_that_of_their_tensors(fitted: fw.FeatureExplainer, tmp_path: Path) -> None:
    for number, picture in enumerate(PICTURES):
        picture.save(tmp_path / f"{number:02}.png")
    paths = sorted(tmp_path.glob("*.png"))
    again = fit(clone(fitted), paths)
    assert_close(again.explain(str(paths[3])).values, fitted.explain(X[3:4]).values)
    fitted.save(tmp_path / "saved")
    loaded = fw.load(tmp_path / "saved", model=seeded(ImageModel, 3, 3), transform=to_tensor, device="cpu")
    assert_close(loaded.explain(PICTURES[:2]).values, fitted.explain(X[:2]).values, rtol=0, atol=0)
    plain = fw.load(tmp_path / "saved", model=seeded(ImageModel, 3, 3), device="cpu")
    with pytest.raises(TypeError, match=r"inputs\[0\] is a PIL image: pass transform=\.\.\."):
        plain.explain(PICTURES[0])


def test_collecting_says_how_much_memory_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    read_inputs(TensorDataset(BYTES), "x_train", players=GRID, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "x_train: the model gets bytes as numbers from 0 to 255, not rescaled",
        "x_train: collected 24 inputs of 3 x 8 x 6, about 0.1 GB of memory",
    ]


def test_a_function_gets_the_layout_of_the_training_data(tmp_path: Path) -> None:
    shapes = set()

    def predict(x: NDArray[np.float32]) -> NDArray[np.float32]:
        shapes.add(x.shape[1:])
        bright: NDArray[np.float32] = x[:, :4, :, 0].mean((1, 2))
        return bright

    last = X.permute(0, 2, 3, 1).numpy()
    explainer = fit(fw.FeatureExplainer(predict, GRID, device="cpu"), last)
    values = explainer.explain(last[:3]).values
    assert_close(explainer.explain(X[:3]).values, values)  # images to explain may have another one
    predicted = explainer.predictions(X).model
    assert predicted is not None
    assert_close(predicted[:, 0], X[:, 0, :4].mean((1, 2)))
    explainer.save(tmp_path)
    loaded = fw.load(tmp_path, model=predict, device="cpu")
    assert_close(loaded.predictions(last).model, predicted)
    assert shapes == {(8, 6, 3)}


def test_gray_images_need_no_axis_for_channels() -> None:
    gray = X[:, 0]
    explainer = fit(fw.FeatureExplainer(seeded(ImageModel), GRID, device="cpu"), gray.numpy())
    both = explainer.explain(gray[:4]).values
    assert_close(explainer.explain(gray[:4, None]).values, both)
    assert_close(explainer.explain(gray[2]).values, both[2:3])


def test_a_removal_may_have_channels_last() -> None:
    baseline = X[0].permute(1, 2, 0)
    last, first = (fit(new(surrogate=None, removal=fill)) for fill in (baseline, X[0]))
    assert_close(last.surrogate_.get_buffer("fill"), first.surrogate_.get_buffer("fill"))


def test_a_module_that_wants_channels_last_is_told_what_it_got() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Flatten(), torch.nn.Linear(192, 2))
    explainer = fw.FeatureExplainer(model, GRID, device="cpu")
    message = r"inputs of shape \(22, 3, 8, 6\).*passed as \(images, height, width, channels\); a torch"
    with pytest.raises(ValueError, match=message):
        explainer.fit(X[:22].permute(0, 2, 3, 1), X[:4], progress=False)


def test_what_may_be_read_in_two_ways_is_told() -> None:
    cube = torch.zeros(5, 4, 4, 4)
    with pytest.warns(UserWarning, match=r"x of shape \(5, 4, 4, 4\) may have channels first or last"):
        assert read_inputs(cube, "x", players=fw.grid(4, 4, patch=2)).layout == "NCHW"
    assert read_inputs(cube[..., :3], "x", players=fw.grid(4, 4, patch=2)).layout == "NHWC"


def test_tables_may_be_lists_or_datasets() -> None:
    table = rows(30, 4)
    model = torch.nn.Linear(4, 3)
    plain, listed, collected = (
        fit(fw.FeatureExplainer(model, device="cpu"), x).explain(table[:3]).values
        for x in (table, list(table), DataLoader(TensorDataset(table), batch_size=8))
    )
    assert torch.equal(plain, listed)
    assert torch.equal(plain, collected)
    function = fw.Explainer(lambda x: x.sum(1), TensorDataset(table.double()), progress=False)
    assert_close(function.explain(table[:3]).values[..., 0], (table[:3] - table.mean(0)).numpy(), check_dtype=False)


def test_a_function_of_a_table_gets_lists_of_rows_as_they_are() -> None:
    seen = []

    def total(x: NDArray[np.float64]) -> NDArray[np.float64]:
        seen.append(x.dtype)
        sums: NDArray[np.float64] = x.sum(1)
        return sums

    table = rows(30, 4).double().numpy() / 3
    fit(fw.FeatureExplainer(total, device="cpu"), list(table))
    assert set(seen) == {np.dtype(np.float64)}


def fails(_: object) -> Tensor:
    raise KeyError("no such image")


BAD: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "other channels": (lambda: X[:, :2], {"channels": 3}, r"\(batch, 3, 8, 6\).*as in fit, or channels last; got"),
    "other size": (lambda: X[..., :5], {}, r"x must have shape \(batch, channels, 8, 6\) .* got \(24, 3, 8, 5\)"),
    "an empty DataLoader": (lambda: DataLoader(Items([])), {}, "at least one input, got an empty DataLoader"),
    "an empty Dataset": (lambda: Items([]), {}, "at least one input, got an empty Items"),
    "batches of several shapes": (
        lambda: DataLoader(Items([X[0], X[1, :, :4]]), batch_size=1),
        {},
        r"batch 0 has \(3, 8, 6\), batch 1 has \(3, 4, 6\); resize them",
    ),
    "items of several shapes": (
        lambda: DataLoader(Items([X[0], X[1, :, :4]]), batch_size=2),
        {},
        "x: DataLoader failed on batch 0: RuntimeError: .*size",
    ),
    "a list of several shapes": (lambda: [X[0], X[1, :, :4]], {}, r"item 1 has \(3, 4, 6\)"),
    "dicts": (lambda: Items([{"a": X[0], "b": X[0]}]), {}, r"x\[0\] is a dict of 'a', 'b'"),
    "no transform": (lambda: PICTURES, {"transform": None}, r"x\[0\] is a PIL image: pass transform"),
    "no transform of paths": (lambda: ["a.png"], {"transform": None}, r"x\[0\] is the path 'a.png': pass transform"),
    "a transform to pictures": (lambda: PICTURES, {"transform": lambda p: p}, "transform must return a tensor or an"),
    "a transform that fails": (lambda: PICTURES, {"transform": fails}, r"transform failed on x\[0\]: KeyError"),
    "missing files": (lambda: ["nowhere.png"], {}, "nowhere.png"),
    "other entries": (lambda: [X[0], "a", None], {"transform": None}, r"x\[1\]"),
    "objects": (lambda: [np.array([None, 3])], {}, r"x\[0\] must be an array of real numbers, got object"),
    "complex numbers": (lambda: [X[0] * 1j], {}, r"x\[0\] must be an array of real numbers, got torch.complex64"),
    "labels": (lambda: Items([3]), {}, r"x\[0\] must be a tensor, an array, a PIL image or a path, got 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_inputs_that_cannot_be_read_are_named(name: str) -> None:
    make, options, message = BAD[name]
    chosen: dict[str, Any] = {"players": GRID, "transform": to_tensor} | options
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        read_inputs(make(), "x", **chosen)


def test_large_inputs_are_split_in_their_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwshapley.explanation.inputs.input_checks.LARGE_BYTES", 0)
    for x in (X.clone(), X.permute(0, 2, 3, 1).clone().permute(0, 3, 1, 2)):
        train, valid = hold_out(x, 5, owned=True)
        expected = hold_out(X, 5)
        assert torch.equal(train, expected[0])
        assert torch.equal(valid, expected[1])
        assert train.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_inputs_that_do_not_fit_into_memory_are_refused_at_once() -> None:
    class Huge(Items):
        def __len__(self) -> int:
            return 2**40

    with pytest.raises(ValueError, match=r"x_train has .* inputs of shape \(3, 8, 6\), which take .* GiB"):
        read_inputs(Huge([X[0]]), "x_train", players=GRID)


def test_pixels_must_be_numbers(fitted: fw.FeatureExplainer) -> None:
    holed = [image.clone() for image in X[:3]]
    holed[1][0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="input 1 contains NaN"):
        fitted.explain(holed)
    assert fitted.usable(holed).tolist() == [True, False, True]
