"""The report: the paper's tables and figures, with intervals, from the files of any runs."""

from .page import build_report

__all__ = ["build_report"]
