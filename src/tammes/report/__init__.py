"""Runs -> tables, figures and one HTML page."""

from tammes.report.figures import Drawing
from tammes.report.page import write_figures, write_html
from tammes.report.reading import read_cases
from tammes.report.summary import Comparison, Row, Summary, summarize
from tammes.report.tables import FORMATS, Terminal, to_csv, to_json, to_latex, to_markdown
from tammes.report.verdict import Verdict, verdict

__all__ = [
    "FORMATS",
    "Comparison",
    "Drawing",
    "Row",
    "Summary",
    "Terminal",
    "Verdict",
    "read_cases",
    "summarize",
    "to_csv",
    "to_json",
    "to_latex",
    "to_markdown",
    "verdict",
    "write_figures",
    "write_html",
]
