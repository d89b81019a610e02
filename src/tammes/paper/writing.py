"""Sheets as text: terminal, Markdown, LaTeX, CSV and JSON (HTML has its own module)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tammes.paper.pages import to_html
from tammes.paper.results import reasons
from tammes.paper.sheets import Cell, Line, Panel, Row, Sheet

CELL, LABEL = 15, 22
WIDE = 4  # columns that LaTeX sets on a page as they are
STYLES = {"published": "", "known": "", "measured": "", "difference": "italic"}
COLORS = {"better": "green", "worse": "red", "same": "dim", "": ""}


class Terminal:
    """A sheet for the terminal, its columns spread over as many grids as the width asks for.

    Where some columns hold a number of ours, the others are only named: files show them all.
    """

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the panels in the width that there is."""
        yield Text(self._sheet.title, style="bold underline")
        if self._sheet.statement:
            yield Padding(Text(self._sheet.statement), (0, 0, 1, 0))
        for panel in self._sheet.panels:
            yield Text(panel.title, style="bold")
            shown = _filled(panel)
            for some in _spread(len(shown), options.max_width - sum(_labels(panel))):
                yield _grid(panel, [shown[i] for i in some])
            if idle := [name for i, name in enumerate(panel.columns) if i not in shown]:
                yield Text(
                    f"Not run, so published alone and in the files: {', '.join(idle)}.", "dim"
                )
            for note in panel.notes:
                yield Text(note, style="yellow")
        for text in (*self._sheet.notes, *_needs(self._sheet)):
            yield Text(text, style="dim")


def _spread(columns: int, width: int) -> list[range]:
    """Spread columns evenly over as few grids as fit beside the labels."""
    per_grid = max(1, width // (CELL + 1))
    grids = -(-columns // per_grid)
    size = -(-columns // max(1, grids))
    return [range(i, min(columns, i + size)) for i in range(0, columns, max(1, size))]


def _labels(panel: Panel) -> tuple[int, int]:
    """Give the widths of rows' and lines' names, a space included."""
    rows = [len(row.label) for row in panel.rows]
    lines = [len(line.label) for row in panel.rows for line in row.lines]
    return min(LABEL, max(rows, default=0)) + 1, min(LABEL, max(lines, default=0)) + 1


def _filled(panel: Panel) -> list[int]:
    """List the columns with a number that is not the paper's; all of them where there is none."""
    own = [line for row in panel.rows for line in row.lines if line.kind != "published"]
    every = range(len(panel.columns))
    return [
        i for i in every if any(ln.cells[i].text or ln.cells[i].interval for ln in own)
    ] or list(every)


def _grid(panel: Panel, some: Sequence[int]) -> RenderableType:
    grid = Grid(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for width in _labels(panel):
        grid.add_column("", width=width - 1, overflow="fold")
    for i in some:
        grid.add_column(Text(panel.columns[i]), justify="right", width=CELL, overflow="fold")
    for row in panel.rows:
        shown = [ln for ln in row.lines if any(ln.cells[i].number for i in some)]
        for position, line in enumerate(shown):
            cells = [_stacked(line.cells[i]) for i in some]
            label = Text(row.label if position == 0 else "", "bold")
            grid.add_row(label, Text(line.label, STYLES[line.kind]), *cells)
    return Padding(grid, (0, 0, 1, 0))


def _stacked(cell: Cell) -> Text:
    """Write a cell in up to three lines: the number, its range, a remark."""
    text = Text(f"{cell.number} {cell.sign}".strip(), style=COLORS[cell.mark])
    for more in (cell.range, cell.note):
        if more:
            text.append(f"\n{more}", style="dim")
    return text


def _needs(sheet: Sheet) -> Iterator[str]:
    """Say in few lines what was not run; the files say it in full."""
    return (f"Not run: needs {line}" for line in reasons(sheet.missing))


def remarks(sheet: Sheet) -> Iterator[str]:
    """List what stands below the panels."""
    yield from sheet.notes
    for missing in sheet.missing:
        yield f"Not run: needs {missing.needs}: {missing.detail}"


# --- documents ----------------------------------------------------------------------------------


def to_markdown(sheet: Sheet) -> str:
    """Write one Markdown table per panel."""
    parts = [f"## {plain(sheet.title)}", plain(sheet.statement)]
    for panel in sheet.panels:
        parts += [f"### {plain(panel.title)}", _markdown(panel)]
        parts += [plain(note) for note in panel.notes]
    parts += ["\n".join(f"- {plain(text)}" for text in remarks(sheet))]
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown(panel: Panel) -> str:
    head = ["", "", *map(plain, panel.columns)]
    lines = [head, ["---", "---", *["--:"] * len(panel.columns)]]
    for row, line, first in _lines(panel):
        label = f"**{plain(row.label)}**" if first else ""
        lines.append([label, plain(line.label), *(plain(str(cell)) for cell in line.cells)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _lines(panel: Panel) -> Iterator[tuple[Row, Line, bool]]:
    for row in panel.rows:
        for position, line in enumerate(row.lines):
            yield row, line, position == 0


def plain(text: str) -> str:
    """Keep a text from being read as Markdown."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>#" else c for c in text).replace("\n", " ")


TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "_": r"\_",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "≈": r"$\approx$", "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "Δ": r"$\Delta$",
    "−": "$-$", "–": "--", "·": r"$\cdot$", "±": r"$\pm$", "“": "``", "”": "''", "\n": " ",
    ">": "$>$", "<": "$<$", "²": "$^2$", "…": r"\ldots{}",
}  # fmt: skip


def tex(text: str) -> str:
    """Escape a text for LaTeX."""
    return "".join(TEX.get(letter, letter) for letter in text)


def to_latex(sheet: Sheet) -> str:
    """Write a table per panel (packages booktabs, amssymb, graphicx), notes as comments."""
    said = (
        [r"\noindent{\footnotesize " + tex(sheet.statement) + r"\par}"] if sheet.statement else []
    )
    parts = [f"% {sheet.title}", *said, *(_latex(sheet, p) for p in sheet.panels)]
    return "\n".join([*parts, *(f"% {text}" for text in remarks(sheet)), ""]).replace("\n\n", "\n")


def _latex(sheet: Sheet, panel: Panel) -> str:
    head = ["", "", *panel.columns]
    rows = [
        [row.label if first else "", line.label, *map(_latex_cell, line.cells)]
        for row, line, first in _lines(panel)
    ]
    notes = " ".join(panel.notes)
    caption = tex(" ".join(filter(None, (f"{sheet.title}. {panel.title}.", notes))))
    lines = [
        r"\begin{table}", r"  \centering\footnotesize",
        f"  \\caption{{{caption}}}",
        *([r"  \resizebox{\linewidth}{!}{%"] if len(panel.columns) > WIDE else []),
        f"  \\begin{{tabular}}{{ll{'r' * len(panel.columns)}}}", r"    \toprule",
        "    " + " & ".join(map(tex, head)) + r" \\", r"    \midrule",
        *("    " + " & ".join([tex(row[0]), tex(row[1]), *row[2:]]) + r" \\" for row in rows),
        r"    \bottomrule", r"  \end{tabular}" + ("}" if len(panel.columns) > WIDE else ""),
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    """Set the range and a remark small, behind the number."""
    if cell.why is not None and cell.interval is None:
        return "--"  # comments below the tables say what it needs
    range_, note = (
        r" {\tiny " + tex(text) + "}" if text else ""
        for text in (cell.range, f"({cell.note})" if cell.note else "")
    )
    return (tex(cell.number) + range_ + tex(f" {cell.sign}".rstrip()) + note).strip()


# --- data ---------------------------------------------------------------------------------------

FIELDS = (
    "table", "panel", "row", "kind", "source", "column", "printed", "value", "low", "high", "mark",
    "note", "needs",
)  # fmt: skip


def records(sheet: Sheet) -> Iterator[dict[str, Any]]:
    """List every cell."""
    for panel in sheet.panels:
        for row, line, _ in _lines(panel):
            for column, cell in zip(panel.columns, line.cells, strict=True):
                about = (sheet.name, panel.title, row.label, line.kind, line.label, column)
                yield dict(zip(FIELDS, (*about, *_values(cell)), strict=True))


def _values(cell: Cell) -> Sequence[Any]:
    found = cell.interval
    numbers = (found.value, found.low, found.high) if found else (None, None, None)
    note = cell.note or (f"mean {cell.mean}" if cell.mean else "")
    return (cell.text, *numbers, cell.mark, note, cell.why.needs if cell.why else "")


def to_csv(sheet: Sheet) -> str:
    """Write one line per cell, in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(sheet))
    return text.getvalue()


def to_json(sheet: Sheet) -> str:
    """Write everything, the reasons included."""
    whole = {
        "name": sheet.name,
        "title": sheet.title,
        "statement": sheet.statement,
        "cells": list(records(sheet)),
        "panel_notes": {panel.title: list(panel.notes) for panel in sheet.panels if panel.notes},
        "notes": list(sheet.notes),
        "missing": [{"needs": m.needs, "detail": m.detail} for m in sheet.missing],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


WRITERS: Mapping[str, Callable[[Sheet], str]] = {
    "md": to_markdown,
    "tex": to_latex,
    "html": to_html,
    "csv": to_csv,
    "json": to_json,
}
