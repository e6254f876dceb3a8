"""What a person is shown of valued points: suspects on the terminal, and a folder with ranking, report and values."""

from fwshapley.valuation_report.findings import Findings, value_points
from fwshapley.valuation_report.page import make_report
from fwshapley.valuation_report.ranking import rank_points
from fwshapley.valuation_report.terminal import show
from fwshapley.valuation_report.writing import check_folder, write

__all__ = ["Findings", "check_folder", "make_report", "rank_points", "show", "value_points", "write"]
