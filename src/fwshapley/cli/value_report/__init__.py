"""What a person is shown of valued points: suspects on the terminal, and a folder with ranking, report and values."""

from fwshapley.cli.value_report.findings import Findings, value_points
from fwshapley.cli.value_report.folder import check_folder, write
from fwshapley.cli.value_report.page import make_report
from fwshapley.cli.value_report.ranking import rank_points
from fwshapley.cli.value_report.terminal import show

__all__ = ["Findings", "check_folder", "make_report", "rank_points", "show", "value_points", "write"]
