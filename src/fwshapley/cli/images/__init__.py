"""Pictures in files: read as arrays, labeled by their folders, and small enough to be shown."""

from fwshapley.cli.images.folder import ClassFolder, find_pictures
from fwshapley.cli.images.labeled import Pictures

__all__ = ["ClassFolder", "Pictures", "find_pictures"]
