"""Training that was stopped: what its folder contains, how to go on, and what is removed in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fwshapley._internal.files import check_writable

FOLDER = "checkpoints"


@dataclass(frozen=True)
class Checkpoints:
    """Files that training saves its progress to.

    Attributes:
        out: folder of the results; the files are in a folder below it.
        stems: their names without ending, as patterns.
    """

    out: Path
    stems: Sequence[str]

    @property
    def path(self) -> Path:
        """Folder of the files."""
        return self.out / FOLDER

    def files(self) -> list[Path]:
        """Return the files that are there."""
        return [path for stem in self.stems for path in sorted(self.path.glob(f"{stem}.safetensors"))]

    def check(self, *, resume: bool, force: bool) -> None:
        """Raise an error if training was stopped and is neither resumed nor replaced, or if there is none to resume."""
        check_writable(self.path)
        stopped = bool(self.files())
        if resume and not stopped:
            raise FileNotFoundError(
                f"--resume has nothing to resume: {self.out} contains no training that was stopped; leave it out"
            )
        if stopped and not (resume or force):
            raise FileExistsError(
                f"{self.out} contains training that was stopped: continue with --resume, or start again with --force"
            )

    def remove(self) -> None:
        """Remove the files, also those that were being written when a process was killed, and nothing else."""
        unfinished = [path for stem in self.stems for path in self.path.glob(f".{stem}-*.safetensors")]
        for path in [*self.files(), *unfinished]:
            path.unlink(missing_ok=True)
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()

    def about_stopping(self) -> str:
        """Return the message after Ctrl-C."""
        if self.files():
            return f"stopped; progress is saved in {self.path}. Run the same command with --resume to continue"
        return "stopped before anything was saved"
