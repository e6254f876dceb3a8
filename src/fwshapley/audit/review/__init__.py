"""Review of suspicious labels: a page on which a person decides, the decisions as a file, and the corrected data."""
