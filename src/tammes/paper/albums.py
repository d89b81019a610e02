"""Figures on disk: SVG, PDF and PNG, and beside them the numbers and the runs behind each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tammes.paper.columns import title
from tammes.paper.figures import Figure
from tammes.paper.gathering import Picture, Source
from tammes.paper.results import Found, Missing
from tammes.plots import write
from tammes.report.figures import SUFFIXES, literal
from tammes.storage import slug, write_atomically


@dataclass(frozen=True, eq=False)
class Drawn:
    """A picture with the stem of its files."""

    picture: Picture
    path: Path


@dataclass(frozen=True, eq=False)
class Album:
    """All pictures of one figure, and why others are lacking."""

    figure: Figure
    drawn: tuple[Drawn, ...]
    missing: tuple[Missing, ...]

    def lines(self) -> Iterator[str]:
        """Say what was drawn from which data, and what the rest needs."""
        yield f"{self.figure.name}: {self.figure.title}"
        for drawn in self.drawn:
            yield f"  {drawn.path}.{{{','.join((*SUFFIXES, 'json'))}}}"
            yield f"    from {drawn.picture.subject.name}: {_said(drawn.picture)}"
        if not self.drawn:
            yield "  nothing was drawn"
        if self.missing:
            yield f"  not drawn: needs {', '.join(m.needs for m in self.missing)}"


def make_album(figure: Figure, source: Source, folder: Path) -> Album:
    """Gather what a figure shows, and draw it."""
    answers = list(figure.gather(source))
    pictures = [one for one in answers if isinstance(one, Picture)]
    alone = len(source.sessions) == 1
    drawn = tuple(_draw(figure, picture, folder, alone) for picture in pictures)
    lacks = [one for one in answers if isinstance(one, Missing)]
    lacks += [why for picture in pictures for why in picture.missing]
    return Album(figure, drawn, tuple(dict.fromkeys(lacks)))


def _draw(figure: Figure, picture: Picture, folder: Path, alone: bool) -> Drawn:
    parts = [figure.name, picture.dataset, "" if alone else picture.subject.name]
    path = folder / slug("-".join(filter(None, parts)))
    canvas = figure.draw(picture, headline_of(figure, picture))
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in SUFFIXES:
        write(canvas, path.with_name(f"{path.name}.{suffix}"))
    record = json.dumps(record_of(figure, picture), ensure_ascii=False, allow_nan=False)
    write_atomically(path.with_name(f"{path.name}.json"), (record + "\n").encode())
    return Drawn(picture, path)


def headline_of(figure: Figure, picture: Picture) -> str:
    """Name the figure and, in a second line, the dataset and the model that was measured."""
    dataset = title(picture.dataset) if picture.dataset else ""
    images = f"{_images(picture.runs)} images" if picture.dataset and picture.runs else ""
    parts = (dataset, images, picture.subject.name, picture.note)
    return f"{figure.title}\n{literal(' · '.join(filter(None, parts)))}"


def _images(runs: tuple[Found, ...]) -> str:
    counts = sorted({found.run.images - len(found.run.skipped) for found in runs})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))


def _said(picture: Picture) -> str:
    """Name the data of a picture: datasets with what keeps them from being as published."""
    if not picture.runs:
        return f"class names of {title(picture.dataset)}"
    off: dict[str, list[str]] = {}
    for found in picture.runs:
        said = off.setdefault(title(found.need.dataset), [])
        said += [text for text in found.deviations if text not in said]
    methods = ", ".join(dict.fromkeys(found.run.method for found in picture.runs))
    names = (f"{name} ({', '.join(said)})" if said else name for name, said in off.items())
    return f"{'; '.join(names)}; {methods}"


def record_of(figure: Figure, picture: Picture) -> dict[str, Any]:
    """Write a picture as data: its numbers, its runs, and what it lacks."""
    return {
        "figure": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "model": asdict(picture.subject),
        "dataset": picture.dataset,
        "note": picture.note,
        "values": plain(picture.values),
        "runs": [_run(found) for found in picture.runs],
        "missing": [asdict(missing) for missing in picture.missing],
    }


def _run(found: Found) -> dict[str, Any]:
    """Name a run: the folder `runs/` holds it under this identity."""
    run = found.run
    return {
        "run": run.identity, "dataset": run.dataset, "method": run.method, "prompt": run.prompt,
        "images": run.images - len(run.skipped), "finished": run.finished,
        "deviations": list(found.deviations),
    }  # fmt: skip


def plain(values: Any) -> Any:
    """Turn numbers of any kind into what JSON knows; seven digits are kept."""
    if isinstance(values, Mapping):
        return {str(key): plain(value) for key, value in values.items()}
    if is_dataclass(values):
        return {f.name: plain(getattr(values, f.name)) for f in fields(values)}
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.7g}") if np.isfinite(values) else None
    return values
