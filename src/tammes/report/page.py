"""One HTML page that holds everything, and the figures as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tammes import __version__
from tammes.errors import MissingExtra, StoreError
from tammes.records import Run
from tammes.report.columns import METRIC_COLUMNS, difference_columns
from tammes.report.crowding import Crowding, crowding
from tammes.report.figures import (
    Drawing,
    calibration_drawings,
    crowding_drawings,
    overview_drawings,
)
from tammes.report.inline import embed, mark
from tammes.report.mistakes import worst_mistakes
from tammes.report.overview import overviews
from tammes.report.reading import read_cases
from tammes.report.results import Case
from tammes.report.settings import settings_of
from tammes.report.summary import Comparison, Summary, compare, summarize_cases
from tammes.report.tables import notes, skipped_note
from tammes.report.verdict import PAID, verdict
from tammes.storage import slug, write_atomically


def write_html(
    runs: Iterable[Run],
    path: str | Path,
    command: str = "",
    resamples: int = 1000,
    credit: str = "",
) -> Path:
    """Write a page that needs nothing but itself.

    `command` is what made it; `credit` names whose images it shows.
    """
    cases, unread = read_cases(runs)
    summary = summarize_cases(cases, unread, resamples)
    page = render(cases, summary, command, credit)
    write_atomically(Path(path), page.encode(errors="replace"))
    return Path(path)


def write_figures(runs: Iterable[Run], folder: str | Path) -> list[Path]:
    """Write every figure as SVG, PDF and PNG, in a folder per case where there are several."""
    cases, _ = read_cases(runs)
    written: list[Path] = []
    for number, case in enumerate(cases, 1):
        place = Path(folder) / (f"{number:02d}-{slug(case.name)}" if len(cases) > 1 else "")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StoreError(f"cannot write to {place}: {problem.strerror}") from problem
        drawings = _drawings(case, compare(case))
        written += [path for drawing in drawings for path in drawing.write(place)]
    return written


def _drawings(case: Case, comparison: Comparison) -> Iterator[Drawing]:
    yield from calibration_drawings(case, comparison)
    yield from overview_drawings(case, comparison)
    if found := crowding(case):
        yield from crowding_drawings(found)


def render(cases: Sequence[Case], summary: Summary, command: str = "", credit: str = "") -> str:
    """Fill the page's template."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as problem:
        raise MissingExtra.of("an HTML report", "report", "jinja2") from problem
    environment = Environment(
        loader=PackageLoader("tammes", "assets/report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"mark": _safe(mark), "whole": _whole(cases)}
    numbered = enumerate(zip(cases, summary.comparisons, strict=True), 1)
    return environment.get_template("page.html").render(
        cases=[_case(number, *pair) for number, pair in numbered],
        summary=summary,
        paid=sum(verdict(c).claim == PAID for c in summary.comparisons),
        overviews=overviews(summary),
        notes=notes(summary),
        command=command,
        credit=credit,
        version=__version__,
    )


def _safe(draw: Callable[..., str]) -> Callable[..., str]:
    """Let a template take what is SVG already as it is."""
    from markupsafe import Markup

    return lambda *given: Markup(draw(*given))


def _whole(cases: Sequence[Case]) -> Callable[[str], str]:
    """Keep the names of methods on one line within a sentence."""
    from markupsafe import Markup, escape

    names = {str(escape(r.method)) for case in cases for r in case.results}
    ordered = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w-])({ordered})(?![\w-])")
    return lambda text: Markup(pattern.sub(r'<span class="whole">\1</span>', str(escape(text))))


def _case(number: int, case: Case, comparison: Comparison) -> dict[str, Any]:
    """Collect what the template shows of one case."""
    found = crowding(case)
    first = case.results[0]
    return {
        "id": f"case-{number}",
        "comparison": comparison,
        "verdict": verdict(comparison),
        "skipped": skipped_note(comparison, 20),
        "classes": len(first.classnames),
        "metrics": METRIC_COLUMNS,
        "differences": difference_columns(comparison, static=True),
        "calibration": _figures(calibration_drawings(case, comparison), f"c{number}"),
        "overview": _figures(overview_drawings(case, comparison), f"o{number}"),
        "angles": _figures(crowding_drawings(found), f"a{number}") if found else [],
        "crowding": found,
        "pairs": _pairs(found) if found else [],
        "mistakes": worst_mistakes(case),
        "settings": settings_of(case),
        "versions": first.versions,
        "commands": list(dict.fromkeys(r.command for r in case.results if r.command)),
    }


def _figures(drawings: Iterable[Drawing], prefix: str) -> list[dict[str, Any]]:
    """Draw each figure into the page."""
    draw = _safe(embed)
    return [
        {
            "title": drawing.title,
            "caption": drawing.caption,
            "method": drawing.method,
            "svg": draw(drawing.inline(), f"{prefix}{i}-", f"{drawing.title}: {drawing.text}"),
        }
        for i, drawing in enumerate(drawings)
    ]


def _pairs(found: Crowding) -> list[dict[str, Any]]:
    """List the closest classes with their angles in degrees."""
    maps = [found.start, *found.tuned.values()]
    return [
        {
            "names": (found.classnames[a], found.classnames[b]),
            "angles": [f"{np.degrees(angles[a, b]):.1f}" for angles in maps],
        }
        for a, b in found.closest()
    ]
