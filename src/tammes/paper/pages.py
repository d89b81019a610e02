"""A sheet as one HTML page that needs nothing but itself, in the report's clothes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources

from tammes.paper.sheets import Cell, Line, Panel, Sheet

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}
.difference td, .difference th:nth-child(2) {{ font-style: italic; }}
.why {{ white-space: normal; min-width: 8rem; color: var(--soft); }}
tbody th:nth-child(2) {{ text-align: left; font-weight: 400; }}
</style>
</head>
<body>
<main>
"""


def to_html(sheet: Sheet) -> str:
    """Write a whole page."""
    style = (resources.files("tammes") / "assets" / "report" / "style.css").read_text("utf-8")
    parts = [
        HEAD.format(title=escape(sheet.title), style=style),
        f"<h2>{escape(sheet.title)}</h2>",
        _paragraphs([sheet.statement] if sheet.statement else []),
        *(_panel(panel) for panel in sheet.panels),
        _paragraphs(sheet.notes),
        _missing(sheet),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(filter(None, parts))


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f'<p class="note">{escape(text)}</p>' for text in texts)


def _panel(panel: Panel) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in panel.columns)
    rows = "\n".join(_rows(panel))
    return (
        f"<h3>{escape(panel.title)}</h3>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(panel.title)}">'
        f"<table>\n<thead><tr><td></td><td></td>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
        f"</table></div>\n{_paragraphs(panel.notes)}"
    )


def _rows(panel: Panel) -> Iterator[str]:
    for row in panel.rows:
        for position, line in enumerate(row.lines):
            yield _line(row.label if position == 0 else "", line)


def _line(label: str, line: Line) -> str:
    cells = "".join(map(_cell, line.cells))
    heads = "".join(f'<th scope="row">{escape(text)}</th>' for text in (label, line.label))
    return f'<tr class="{line.kind}">{heads}{cells}</tr>'


def _cell(cell: Cell) -> str:
    if cell.why is not None and cell.interval is None:
        return f'<td class="why" title="{escape(cell.why.detail)}">{escape(cell.number)}</td>'
    small = "".join(f"<small>{escape(text)}</small>" for text in (cell.range, cell.note) if text)
    sign = f" <b>{cell.sign}</b>" if cell.sign else ""
    return f'<td class="{cell.mark}">{escape(cell.number)}{sign}{small}</td>'


def _missing(sheet: Sheet) -> str:
    if not sheet.missing:
        return ""
    items = (f"<li><b>{escape(m.needs)}</b>: {escape(m.detail)}</li>" for m in sheet.missing)
    return '<h3>Not run: needs</h3>\n<ul class="findings">\n' + "\n".join(items) + "\n</ul>"
