"""Python code of a Markdown page, run block by block in one scope: `python tests/readme_code.py README.md`.

Needs nothing but the page and the package, so that CI can run the README in an environment that has the wheel alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def find_blocks(page: Path, language: str) -> list[str]:
    """Return the fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def shorten_training(code: str) -> str:
    """Train for three steps where the page trains for seconds."""
    return re.sub(r"Budget\(seconds=\d+\)", "Budget(steps=3)", code)


def run_page(page: Path) -> int:
    """Run the Python blocks of a page in order, in one scope, and return how many there are."""
    scope: dict[str, object] = {}
    blocks = find_blocks(page, "python")
    for block in blocks:
        exec(compile(shorten_training(block), page.name, "exec"), scope)  # noqa: S102 - our own documentation
    return len(blocks)


if __name__ == "__main__":
    count = run_page(Path(sys.argv[1]))
    print(f"{count} code blocks of {sys.argv[1]} ran")  # noqa: T201 - a script
    sys.exit(count == 0)
