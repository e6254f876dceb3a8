"""ResNet-18 on images of 32 x 32 pixels: data, the model and its surrogates, and long-run references of its games."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from jaxtyping import Float, Int, UInt8
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

import fwshapley as fw
from benchmarks.harness.options import read_data
from fwshapley._internal.files import written_whole
from fwshapley._internal.safetensors_file import digest
from fwshapley.datasets.formats import Split
from fwshapley.explanation.inputs.input_checks import Augment
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import Output

Name = Literal["cifar10", "svhn"]
SIDE = 32
CUT_OUT = 8
VALIDATION, BATCH = 1024, 512
LEAST: Mapping[Split, int] = {"train": VALIDATION + BATCH, "test": 1000}
"""Images needed: a batch beside those for validation, and those that explanations are judged on."""

SMOKE_IMAGES, SMOKE_VALIDATION = 160, 32
WEIGHTS = (fw.Shapley(), *fw.semivalues.FEASIBLE_SET)


@dataclass(frozen=True)
class Source:
    """A data set, and how a ResNet-18 learns it.

    Attributes:
        title: as its authors write it.
        mean: of each channel.
        deviation: of each channel.
        mirrored: whether an image and its mirror image mean the same.
        epochs: for the model.
        peak: learning rate for the model.
        surrogate_epochs: for a surrogate.
    """

    title: str
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    mirrored: bool
    epochs: int
    peak: float
    surrogate_epochs: int


DATASETS: Mapping[Name, Source] = {
    "cifar10": Source(
        "CIFAR-10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616),
        mirrored=True, epochs=40, peak=0.4, surrogate_epochs=20,
    ),
    "svhn": Source(
        "SVHN", (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970),
        mirrored=False, epochs=20, peak=0.2, surrogate_epochs=14,
    ),
}  # fmt: skip


class Images(NamedTuple):
    """Standardized images and their classes."""

    x_train: Float[Tensor, "train 3 32 32"]
    y_train: Int[Tensor, " train"]
    x_test: Float[Tensor, "test 3 32 32"]
    y_test: Int[Tensor, " test"]


def load(name: Name, path: Path, device: torch.device) -> Images:
    """Read a data set from a folder of its files or from a packed npz file."""
    train, test = (read_data(name, path, split, least=LEAST[split]) for split in get_args(Split))
    return Images(
        _standardize(train.images.to(device), DATASETS[name]),
        train.labels.to(device),
        _standardize(test.images.to(device), DATASETS[name]),
        test.labels.to(device),
    )


def stripes(count: int, device: torch.device) -> Images:
    """Return two classes of noisy stripes, where a smoke run needs something to learn."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (count + 64,), generator=generator)
    wave = torch.sin(torch.arange(SIDE) / 2.0)
    across = wave[None, :, None].expand(1, SIDE, SIDE)
    pattern = torch.where(y[:, None, None, None] == 1, across, across.mT)
    x = pattern + 0.5 * torch.randn(len(y), 3, SIDE, SIDE, generator=generator)
    x, y = x.to(device), y.to(device)
    return Images(x[:count], y[:count], x[count:], y[count:])


class ResNet(nn.Module):
    """ResNet-18 for 32 x 32 images (He et al., 2016): eight blocks of two convolutions."""

    def __init__(self, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks, before = [], width
        for stage in range(4):
            after = width << stage
            blocks += [_Block(before, after, stride=2 if stage else 1), _Block(after, after, stride=1)]
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes."""
        out: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return out


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = stride == 1 and before == after
        self.beside = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )
        self.after = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.after(self.inside(x) + self.beside(x))
        return out


def flip_and_shift(x: Float[Tensor, "batch 3 32 32"], generator: torch.Generator) -> Float[Tensor, "batch 3 32 32"]:
    """Flip and shift, at random."""
    flipped = torch.rand(len(x), generator=generator, device=x.device) < 1 / 2
    return shift(torch.where(flipped[:, None, None, None], x.flip(3), x), generator)


def shift(x: Float[Tensor, "batch 3 32 32"], generator: torch.Generator) -> Float[Tensor, "batch 3 32 32"]:
    """Shift by up to four pixels, at random."""
    batch, device = len(x), x.device
    down, right = torch.randint(0, 9, (2, batch), generator=generator, device=device)
    pixels, images = torch.arange(SIDE, device=device), torch.arange(batch, device=device)[:, None, None]
    padded = functional.pad(x, (4, 4, 4, 4)).permute(0, 2, 3, 1)
    cropped = padded[images, (down[:, None] + pixels)[:, :, None], (right[:, None] + pixels)[:, None, :]]
    return cropped.permute(0, 3, 1, 2)  # channels last in memory


def cut_out(x: Float[Tensor, "batch 3 32 32"], generator: torch.Generator) -> Float[Tensor, "batch 3 32 32"]:
    """Blank a square in each image, at random (DeVries and Taylor, 2017)."""
    top, left = torch.randint(0, SIDE - CUT_OUT + 1, (2, len(x), 1), generator=generator, device=x.device)
    pixels = torch.arange(SIDE, device=x.device)
    rows, columns = ((pixels >= start) & (pixels < start + CUT_OUT) for start in (top, left))
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def train_model(
    model: nn.Module, images: Images, augment: Augment, *, epochs: int, batch: int, peak: float, seed: int = 0
) -> nn.Module:
    """Train in place, from scratch: SGD with Nesterov momentum, one cycle, label smoothing, blanked squares."""
    device = images.x_train.device
    compiled = torch.compile(model) if device.type == "cuda" else model
    generator = torch.Generator(device).manual_seed(seed)
    steps = len(images.x_train) // batch
    optimizer = torch.optim.SGD(model.parameters(), lr=peak, momentum=0.9, nesterov=True, weight_decay=5e-4)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=epochs * steps, pct_start=0.2)
    for _ in range(epochs):
        order = torch.randperm(len(images.x_train), generator=generator, device=device)
        for rows in order[: steps * batch].split(batch):
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = compiled(cut_out(augment(images.x_train[rows], generator), generator))
            loss = functional.cross_entropy(logits.float(), images.y_train[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            cycle.step()
    return model


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of images whose class a model gets right."""
    with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
        return float(torch.cat([model(part).argmax(1) for part in x.split(1000)]).eq(y).double().mean())


@dataclass(frozen=True)
class Setting:
    """The model that is explained, its surrogates and its data.

    Attributes:
        images: data; the last of the training images are for validation.
        model: the ResNet-18.
        surrogate: started from the model; its game is explained.
        judge: a second surrogate, of another seed and started afresh, which no explainer ever sees.
        players: 2 x 2 pixels each.
        augment: changes images at random as their meaning allows.
        facts: accuracy and fidelity.
        validation: number of images for validation.
    """

    images: Images
    model: nn.Module
    surrogate: fw.explanation.Surrogate
    judge: fw.explanation.Surrogate
    players: fw.players.Players
    augment: Augment
    facts: dict[str, Any]
    validation: int

    @property
    def x_train(self) -> Tensor:
        """Images to train explainers on."""
        return self.images.x_train[: -self.validation]

    @property
    def x_valid(self) -> Tensor:
        """Validation images."""
        return self.images.x_train[-self.validation :]

    @cached_property
    def quick_surrogate(self) -> nn.Module:
        """The surrogate, compiled once where that pays."""
        on_gpu = self.images.x_train.device.type == "cuda"
        return cast("nn.Module", torch.compile(self.surrogate)) if on_gpu else self.surrogate

    @cached_property
    def sitting(self) -> str:
        """Hash of model and surrogates; it differs whenever they are trained again."""
        parts = {"model": self.model, "surrogate": self.surrogate, "judge": self.judge}
        tensors = {f"{name}.{key}": each for name, part in parts.items() for key, each in part.state_dict().items()}
        return digest(tensors)[:8]


def prepare(data: Path | None, device: torch.device, work: Path, name: Name = "cifar10") -> Setting:
    """Train model and surrogates, or load those of an earlier call from the work folder. Without data: a smoke run."""
    smoke, source = data is None, DATASETS[name]
    images = load(name, data, device) if data else stripes(SMOKE_IMAGES, device)
    validation = VALIDATION if data else SMOKE_VALIDATION
    players = fw.grid(SIDE, SIDE, patch=2)
    width, epochs, batch = (8, 2, 32) if smoke else (64, source.epochs, BATCH)
    steps = 3 if smoke else source.surrogate_epochs * (len(images.x_train) - validation) // batch
    augment = flip_and_shift if source.mirrored else shift
    facts: dict[str, Any] = {}

    def kept(name: str, make: Callable[[], nn.Module], train: Callable[[nn.Module], nn.Module]) -> nn.Module:
        path, started = work / f"{name}.safetensors", time.perf_counter()
        module = make().to(device)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs
        if not path.exists():
            train(module)
            save_halved(module, path)
            print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
        module.load_state_dict(load_file(path))  # what later calls will see, however it was rounded
        return module.eval().requires_grad_(requires_grad=False)

    def teach(seed: int) -> Callable[[nn.Module], nn.Module]:
        def train(module: nn.Module) -> nn.Module:
            options = fw.training.TrainingOptions(
                fw.Budget(steps=steps),
                batch,
                learning_rate=2e-3,
                compiled=device.type == "cuda",
                patience=99,
                seed=seed,
                progress=False,
            )
            x = images.x_train
            game = MaskedModel(module, "probability", players.n_players, device)
            fw.explanation.train_surrogate(game, model, x[:-validation], x[-validation:], options, augment=augment)
            return module

        return train

    classes, fill = int(images.y_train.max()) + 1, torch.zeros(1, 1, 1, 1)
    torch.manual_seed(0)
    model = kept(
        "model",
        lambda: ResNet(classes, width),
        lambda module: train_model(module, images, augment, epochs=epochs, batch=batch, peak=source.peak),
    )
    surrogate = kept("surrogate", lambda: fw.explanation.Surrogate(copy.deepcopy(model), players, fill), teach(0))
    torch.manual_seed(1)
    judge = kept("judge", lambda: fw.explanation.Surrogate(ResNet(classes, width), players, fill), teach(1))
    facts["accuracy"] = accuracy(model, images.x_test, images.y_test)
    for part, module in (("surrogate", surrogate), ("judge", judge)):
        game = MaskedModel(module, "probability", players.n_players, device)
        measured = fw.explanation.measure_fidelity(game, model, images.x_test[:2048])
        facts[part] = asdict(measured)
    return Setting(images, model, surrogate, judge, players, augment, facts, validation)  # type: ignore[arg-type] # made above


def save_halved(module: nn.Module, path: Path) -> None:
    """Save a network with weights in bf16, which are small to copy; the rounded network is what is explained."""
    weights = {
        name: each.bfloat16().contiguous() if each.is_floating_point() and each.ndim > 1 else each
        for name, each in module.state_dict().items()
    }
    with written_whole(path) as temporary:
        save_file(weights, temporary)


def references(
    setting: Setting,
    x: Float[Tensor, "images 3 32 32"],
    output: Output,
    calls: int,
    seed: int,
    *,
    weights: Sequence[fw.Semivalue] = WEIGHTS,
) -> Float[Tensor, "weights images players outputs"]:
    """Long-run estimates of some weightings, one least-squares run for all images together."""
    batch = 64
    masked = MaskedModel(setting.quick_surrogate, output, setting.players.n_players, x.device)

    @dataclass
    class AllImages:
        n_players: int = setting.players.n_players
        device: torch.device = x.device

        def __call__(self, coalitions: Tensor) -> Tensor:
            missing = -len(coalitions) % batch  # one shape, so that nothing is compiled twice
            padded = functional.pad(coalitions, (0, 0, 0, missing))
            worth = [masked(x, part.expand(len(x), -1, -1)).transpose(0, 1).flatten(1) for part in padded.split(batch)]
            return torch.cat(worth)[: len(coalitions)]

    estimates = [
        fw.least_squares_values(AllImages(), each, n_calls=calls, seed=seed, batch_size=2048, progress=False).values
        for each in weights
    ]
    return torch.stack(estimates).unflatten(2, (len(x), -1)).transpose(1, 2).float()


def _standardize(x: UInt8[Tensor, "images 3 32 32"], source: Source) -> Float[Tensor, "images 3 32 32"]:
    moments = (source.mean, source.deviation)
    mean, deviation = (torch.tensor(each, device=x.device)[:, None, None] for each in moments)
    return ((x.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)
