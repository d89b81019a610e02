"""A summary as text for people, papers and programs: terminal, Markdown, LaTeX, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tammes.report.columns import (
    LEGEND,
    METRIC_COLUMNS,
    SAME,
    Cell,
    Column,
    difference_columns,
)
from tammes.report.overview import Overview, overviews
from tammes.report.summary import Comparison, Row, Summary
from tammes.report.verdict import verdict
from tammes.statistics import Interval

STYLES = {"better": "green", "worse": "red", "same": "dim", None: ""}
CELL, COMPARED_CELL = 11, 14


def notes(summary: Summary) -> str:
    """Explain what the tables mean, in one paragraph."""
    said = "; ".join(f"{short}: {text}" for short, text in LEGEND.items())
    return (
        f"{said}. Ranges are {summary.level:.0%} bootstrap intervals from {summary.resamples} "
        f"resamples; an ECE's takes the noise off that raises its value, and may lie below it. "
        f"{SAME} marks a difference that cannot be told apart from 0. Every "
        "comparison stands alone: of twenty between equal methods, about one is marked real. The "
        "sentence on top calls a gain real only if it outlasts all comparisons (Bonferroni)."
    )


def skipped_note(comparison: Comparison, limit: int = 5) -> str:
    """Count and name the images that no number includes."""
    if not comparison.skipped:
        return ""
    listed = [f"{name} ({why})" for name, why in list(comparison.skipped.items())[:limit]]
    more = len(comparison.skipped) - len(listed)
    rest = f" and {more} more" if more else ""
    return f"Skipped {len(comparison.skipped)}: {', '.join(listed)}{rest}"


def unfinished_note(comparison: Comparison) -> str:
    """Say which methods still lack answers: images come class by class, so a part misleads."""
    if not comparison.unfinished:
        return ""
    lacking = ", ".join(f"{name} lacks {count}" for name, count in comparison.unfinished.items())
    return (
        f"Unfinished: {lacking} of the images, and not every class may have been seen. The command "
        "that began these runs finishes them"
    )


def unread_note(summary: Summary) -> str:
    """Name the runs that no table shows."""
    listed = [f"{name} ({why})" for name, why in summary.unread.items()]
    return f"Not in this report: {'; '.join(listed)}" if listed else ""


# --- terminal -----------------------------------------------------------------------------------


class Terminal:
    """A summary for the terminal, in as many tables as its width asks for."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the tables out in the width that there is."""
        if note := unread_note(self._summary):
            yield Padding(Text(note, style="bold red"), (0, 0, 1, 0))
        for comparison in self._summary.comparisons:
            yield from _terminal(comparison, options.max_width)
        yield Text(notes(self._summary), style="dim")


def _terminal(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    yield Text(f"{comparison.name} · {comparison.images}", style="bold")
    if note := unfinished_note(comparison):
        yield Text(note, style="bold red")
    yield Padding(Text(verdict(comparison).headline), (0, 0, 1, 0))
    for columns in _fit(METRIC_COLUMNS, width):
        yield _grid(comparison, columns)
    if columns := difference_columns(comparison):
        yield _grid(comparison, columns)
    if note := skipped_note(comparison):
        yield Padding(Text(note, style="yellow"), (0, 0, 1, 0))


def _fit(columns: Sequence[Column], width: int) -> list[Sequence[Column]]:
    """Spread columns evenly over as few tables as the width allows."""
    per_table = max(2, (width - 16) // (CELL + 1))
    tables = -(-len(columns) // per_table)
    size = -(-len(columns) // tables)
    return [columns[i : i + size] for i in range(0, len(columns), size)]


def _grid(comparison: Comparison, columns: Sequence[Column]) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("\nMethod", min_width=14, overflow="fold")
    for column in columns:
        width = CELL if column.reference is None else COMPARED_CELL
        table.add_column(Text("\n".join(column.head)), justify="right", width=width)
    for row in comparison.rows:
        table.add_row(Text(row.method), *(_two_lines(column.cell(row)) for column in columns))
    return Padding(table, (0, 0, 1, 0))


def _two_lines(cell: Cell) -> Text:
    text = Text(f"{cell.word} {cell.marked}".strip(), style=STYLES[cell.effect])
    return text.append(f"\n{cell.low}…{cell.high}", style="dim") if cell.low else text


# --- documents ----------------------------------------------------------------------------------


def to_markdown(summary: Summary) -> str:
    """Write one table per case for Markdown, behind the overviews of many."""
    glance = [
        f"### {_plain(_caption(found))}\n\n{_markdown_table(*_glance(found))}\n"
        for found in overviews(summary)
    ]
    unread = [f"**{_plain(note)}**\n"] if (note := unread_note(summary)) else []
    return "\n".join([*unread, *glance, *map(_markdown, summary.comparisons), notes(summary), ""])


def _markdown(comparison: Comparison) -> str:
    columns = [*METRIC_COLUMNS, *difference_columns(comparison)]
    head = ["Method", "Images", *(column.title for column in columns)]
    rows = [[_plain(r.method), f"{r.images}", *_one_line(r, columns)] for r in comparison.rows]
    parts = (
        f"### {_plain(comparison.name)}",
        f"**{_plain(note)}**" if (note := unfinished_note(comparison)) else "",
        _plain(str(verdict(comparison))),
        _markdown_table(head, rows),
        _plain(skipped_note(comparison)),
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _caption(found: Overview) -> str:
    return f"{found.title} · {found.model} · {found.prompt}"


def _glance(found: Overview) -> tuple[list[str], list[list[str]]]:
    """Lay out an overview; a word says where a method differs from zero-shot."""
    rows = [[m, *(f"{c.value} {c.word}".strip() for c in cells)] for m, cells in found.rows.items()]
    return ["Method", *found.datasets, "Mean"], rows


def _one_line(row: Row, columns: Sequence[Column]) -> list[str]:
    return [
        f"{c.marked} {c.brackets} {c.word}".strip()
        for c in (column.cell(row) for column in columns)
    ]


def _plain(text: str) -> str:
    """Keep a name from being read as Markdown."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>#" else c for c in text).replace("\n", " ")


def to_latex(summary: Summary) -> str:
    """Write one booktabs table per case, behind the overviews; the ranges stay in the CSV."""
    glance = [_latex_table(_caption(found), *_glance(found)) for found in overviews(summary)]
    return "\n".join([*glance, *map(_latex, summary.comparisons)])


def _latex(comparison: Comparison) -> str:
    columns = [*METRIC_COLUMNS, *difference_columns(comparison)]
    head = ["Method", *(column.title for column in columns)]
    rows = [[r.method, *(c.cell(r, 2).marked for c in columns)] for r in comparison.rows]
    return _latex_table(f"{comparison.name}, {comparison.images}", head, rows)


def _latex_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [
        r"\begin{table}", r"  \centering",
        f"  \\caption{{{_tex(caption)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"    \toprule",
        f"    {_tex_row(head)}", r"    \midrule",
        *(f"    {_tex_row(row)}" for row in rows),
        r"    \bottomrule", r"  \end{tabular}", r"\end{table}", "",
    ]  # fmt: skip
    return "\n".join(lines)


TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "_": r"\_",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "≈": r"$\approx$", "Δ": r"$\Delta$", "−": "$-$", "–": "--", "·": r"$\cdot$", "\n": " ",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(TEX.get(letter, letter) for letter in text)


def _tex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


# --- data ---------------------------------------------------------------------------------------

FIELDS = (
    "dataset", "model", "prompt", "method", "images", "metric", "reference", "value", "low", "high",
)  # fmt: skip


def records(summary: Summary) -> Iterator[dict[str, Any]]:
    """List every number: a metric of a method, or its difference to a reference."""
    for comparison in summary.comparisons:
        case = {key: getattr(comparison, key) for key in FIELDS[:3]}
        for row in comparison.rows:
            about = {**case, "method": row.method, "images": row.images}
            yield from _numbers(about, "", {**row.metrics, "chance_ece": row.chance_ece})
            for reference, differences in row.against.items():
                yield from _numbers(about, reference, differences)


def _numbers(
    about: Mapping[str, Any], reference: str, metrics: Mapping[str, Interval]
) -> Iterator[dict[str, Any]]:
    for name, interval in metrics.items():
        yield {**about, "metric": name, "reference": reference, **asdict(interval)}


def to_csv(summary: Summary) -> str:
    """Write one line per method and metric, in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(summary))
    return text.getvalue()


def to_json(summary: Summary) -> str:
    """Write everything, the verdicts included."""
    whole = asdict(summary)
    for written, comparison in zip(whole["comparisons"], summary.comparisons, strict=True):
        written["verdict"] = asdict(verdict(comparison))
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[Summary], str]] = {
    "markdown": to_markdown,
    "csv": to_csv,
    "json": to_json,
    "latex": to_latex,
}
