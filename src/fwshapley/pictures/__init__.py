"""Pictures in files: read as arrays, labelled by their folders, and small enough to be shown."""

from fwshapley.pictures.folder import ClassFolder, find_pictures
from fwshapley.pictures.labelled import Pictures

__all__ = ["ClassFolder", "Pictures", "find_pictures"]
