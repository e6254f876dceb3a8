"""Pictures small enough to show many of them on one page."""

from __future__ import annotations

import io
from pathlib import Path

from fwshapley._internal.html import Picture
from fwshapley.cli.images.files import load_picture

SIDE = 96
"""Longer side of a thumbnail, in pixels."""

TINY = 32
"""Longer side up to which each pixel becomes a square of several."""

QUALITY = 80


def make_thumbnail(path: Path) -> Picture:
    """Return a picture as it is read, but small; a tiny one is enlarged, so that its pixels can be seen."""
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    picture, buffer = load_picture(path), io.BytesIO()
    longer = max(picture.size)
    if longer <= TINY:
        times = SIDE // longer
        enlarged = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
        enlarged.save(buffer, "PNG", optimize=True)
        return Picture(buffer.getvalue(), "png")
    picture.thumbnail((SIDE, SIDE))
    picture.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return Picture(buffer.getvalue(), "jpeg")
