"""Cells of a .csv file as they are written, so that a few can be replaced and all other bytes stay as they are."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from fwshapley.tables.file_reader import CsvFile

HEADER = 1
"""Line of the names of the columns, as a spreadsheet counts."""

PACKERS = {".gz": gzip, ".bz2": bz2, ".xz": lzma}

MARKS = {
    "utf-8-sig": {b"": "utf-8"},
    "utf-16": {codecs.BOM_UTF16_BE: "utf-16-be", b"": "utf-16-le"},
    "utf-32": {codecs.BOM_UTF32_BE: "utf-32-be", b"": "utf-32-le"},
}
"""Encodings whose text may begin with a mark, and those that keep it as a character."""

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class CsvText:
    """The text of a .csv file, from which the same bytes can be made again.

    Attributes:
        file: it comes from.
        text: of the file, with a byte order mark if it has one.
        encoding: that keeps such a mark.
    """

    file: CsvFile
    text: str
    encoding: str

    @classmethod
    def read(cls, file: CsvFile) -> CsvText:
        """Read a file whose header has been read."""
        content = _unpack(file.path)
        encoding = next(
            (name for mark, name in MARKS.get(file.encoding, {}).items() if content.startswith(mark)), file.encoding
        )
        text = content.decode(encoding)
        if text.encode(encoding) != content:
            raise ValueError(
                f"{file.path} cannot be written again in {file.encoding} without changes elsewhere: save it as utf-8"
            )
        return cls(file, text, encoding)

    def copy_cells(self, column: str, sources: Mapping[int, int]) -> str:
        """Return the text with cells of a column replaced by others of the same column.

        Args:
            column: name of the column.
            sources: for rows, as a spreadsheet counts, the row whose cell is copied there.
        """
        spans = self._find_cells(column, {*sources, *sources.values()})
        parts, end = [], 0
        for row in sorted(sources):
            start, stop = spans[row]
            parts += [self.text[end:start], self.text[slice(*spans[sources[row]])]]
            end = stop
        return "".join(parts) + self.text[end:]

    def write(self, text: str, path: Path) -> None:
        """Write a text, encoded and packed as the file is."""
        path.write_bytes(_pack(text.encode(self.encoding), self.file.path, path))

    def _find_cells(self, column: str, rows: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return start and end of the cells of a column in some rows, without blanks before them.

        Quotes are read as pandas does: they count at the start of a cell, and two of them stand for one.
        """
        place, separator = self.file.names.index(column), self.file.separator
        blanks = " \t".replace(separator, "")
        cell = re.compile(rf'[{blanks}]*+((?:"(?:[^"]++|"")*+")?+[^{separator}\r\n]*+)({separator}|\r\n|\r|\n|\Z)')
        spans = {}
        row, position = HEADER, 0
        for match in cell.finditer(self.text, int(self.text.startswith(BYTE_ORDER_MARK))):
            if position == place and row in rows:
                spans[row] = match.span(1)
            position += 1
            if match[2] != separator:
                row, position = row + 1, 0
        return spans


def _unpack(path: Path) -> bytes:
    """Return the bytes of a file that may be compressed."""
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0])
    content = path.read_bytes()
    return PACKERS[suffix].decompress(content) if suffix in PACKERS else content


def _pack(content: bytes, source: Path, path: Path) -> bytes:
    """Return bytes compressed as the name of a path says; a .zip file has them under their name in the source."""
    suffix = path.suffix.lower()
    if suffix != ".zip":
        return PACKERS[suffix].compress(content) if suffix in PACKERS else content
    with zipfile.ZipFile(source) as archive:
        (member,) = archive.namelist()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return buffer.getvalue()
