"""Tables as people have them, turned into the numbers that a valuation needs, with a word on all that was done."""

from fwshapley.tables.table import Table, read_table

__all__ = ["Table", "read_table"]
