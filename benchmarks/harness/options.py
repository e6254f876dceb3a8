"""Command-line options that experiments share, and reading the data that `--data` names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pyDVL's environment, in which knn_valuation_speed.py measures, does not have the package
    from fwshapley.datasets import LabeledImages
    from fwshapley.datasets.catalog import Name
    from fwshapley.datasets.formats import Split

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "docs" / "figures"
REPRODUCED, SMOKED = ROOT / "build" / "reproduced", ROOT / "build" / "smoke"
"""Default folders of new results: a run never replaces a record unless `--out` asks for it."""


class ExperimentParser(argparse.ArgumentParser):
    """The options of one experiment. Every experiment has `--seeds`, `--smoke`, `--out`, `--figures`, `--no-figure`.

    Args:
        doc: docstring of the experiment; its first line becomes the description.
        smoke: what a smoke run does, for the help.
        seeds: default seeds.
        seeds_of: what the seeds are used for, for the help.
        single_seed: whether exactly one seed is allowed.
    """

    def __init__(
        self, doc: str | None, *, smoke: str, seeds: Sequence[int], seeds_of: str, single_seed: bool = False
    ) -> None:
        super().__init__(allow_abbrev=False, description=(doc or "").partition("\n")[0])
        count = "one seed number" if single_seed else "seed numbers"
        self.add_argument(
            "--seeds", type=int, nargs=1 if single_seed else "+", default=list(seeds), help=f"{count}, of {seeds_of}"
        )
        self.add_argument("--smoke", action="store_true", help=f"check that it runs: {smoke}")
        self.add_argument("--out", type=Path, help="folder for the results (default: build/reproduced)")
        self.add_argument("--figures", type=Path, help="folder for the figures (default: build/reproduced)")
        self.add_argument("--no-figure", action="store_true", help="draw nothing")

    def add_data(self, text: str, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        """Add `--data`: a file or folder that exists."""
        self.add_argument("--data", type=existing_path, help=text, **options)

    def add_device(self, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        """Add `--device`: a device that torch can use here."""
        self.add_argument(
            "--device", type=existing_device, help="cpu, cuda or cuda:N (default: %(default)s)", **options
        )

    def add_choices(self, name: str, choices: Iterable[str], text: str, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        """Add an option that takes several of some choices; the help lists them, the usage does not."""
        known = list(choices)
        self.add_argument(
            name, choices=known, metavar=name.strip("-").upper(), help=f"{text}: {quoted(known)}", **options
        )

    def add_draw(self) -> None:
        """Add `--draw`."""
        self.add_argument("--draw", action="store_true", help="run nothing: redraw the figure of the record in --out")

    def parse(self, options: Sequence[str]) -> argparse.Namespace:
        """Parse options, choose and make folders, and take only the first seed for a smoke run."""
        arguments = self.parse_args(options)
        only_draw = getattr(arguments, "draw", False)
        new = SMOKED if arguments.smoke else REPRODUCED
        arguments.out = arguments.out or (RECORDS if only_draw else new)
        arguments.figures = arguments.figures or (FIGURES if only_draw else new)
        for name in ("out", "figures"):
            self._make_folder(getattr(arguments, name), f"--{name}")
        arguments.seeds = arguments.seeds[:1] if arguments.smoke else arguments.seeds
        return arguments

    def need_data(self, arguments: argparse.Namespace, what_for: str = "") -> None:
        """End with a message unless data were given or a smoke run was asked for; or if both were."""
        if arguments.data and arguments.smoke:
            self.error("--smoke takes no --data: it runs on bundled or generated data")
        if not arguments.data and not arguments.smoke:
            self.error(f"--data is needed{f' for {what_for}' if what_for else ''}, or --smoke")

    def _make_folder(self, folder: Path, option: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"{option}: cannot make the folder {folder}: {error.strerror}")


def quoted(choices: Iterable[str]) -> str:
    """Return choices quoted for a shell, with % escaped for argparse."""
    return ", ".join(f"'{choice}'" if " " in choice else choice for choice in choices).replace("%", "%%")


def existing_path(text: str) -> Path:
    """Return a path that exists."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no file or folder {path}")
    return path


def existing_device(text: str) -> str:
    """Return a device that can be used here."""
    if text == "cpu":  # nothing to ask torch, which takes memory that one experiment measures
        return text
    import torch  # noqa: PLC0415 - see above

    try:
        torch.empty(1, device=text)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without it
        raise argparse.ArgumentTypeError(f"torch has no {text!r} here: {str(error).splitlines()[0]}") from error
    return text


def best_device() -> str:
    """Return "cuda" if there is a GPU, else "cpu"."""
    import torch  # noqa: PLC0415 - see existing_device

    return "cuda" if torch.cuda.is_available() else "cpu"


def dataset_at(path: Path, parser: argparse.ArgumentParser) -> Name:
    """Name of the data set in a file or folder, from the name of that file or folder."""
    from fwshapley.datasets.catalog import DATASETS  # noqa: PLC0415 - see the top

    named = [name for name in DATASETS if path.stem.startswith(name)]
    if not named:
        parser.error(f"the name of {path} must start with one of {', '.join(DATASETS)}")
    return named[0]


def read_data(name: Name, path: Path, split: Split = "train", *, least: int = 0) -> LabeledImages:
    """Return images of a data set; end with a message if they are missing, too few, damaged or of another data set.

    Args:
        name: of the data set.
        path: npz file, folder with the official files, or that folder's own, named as the data set.
        split: "train" or "test".
        least: number of images that are needed.
    """
    from fwshapley.datasets import load  # noqa: PLC0415 - see the top

    try:
        images = load(name, _root_of(name, path, split), split=split)
    except (ImportError, OSError, ValueError) as error:
        raise SystemExit(f"--data {path}: {error}") from error
    if len(images.labels) < least:
        raise SystemExit(
            f"--data {path}: {name} has {len(images.labels):,} {split} images there, but {least:,} are needed"
        )
    return images


def _root_of(name: Name, path: Path, split: Split) -> Path:
    """Where to look: in the path given, or one up if its files are only found from there."""
    from fwshapley.datasets.catalog import DATASETS  # noqa: PLC0415 - see the top

    find = DATASETS[name].find
    above = None if path.name != name or find(path, split) else find(path.parent, split)
    return path.parent if above and path in above[0].parents else path
