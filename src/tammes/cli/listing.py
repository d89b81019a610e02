"""`tammes list`: what is known by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from typer import Typer, echo

from tammes.cli import options

catalogs = Typer(help="List what is known by name.", no_args_is_help=True)


@catalogs.command()
def methods(as_json: options.AsJson = False) -> None:
    """List the methods, with the weights of their terms in each preset."""
    from tammes.method import METHODS, PRESETS, methods_with

    presets = {name: methods_with(weights) for name, weights in PRESETS.items()}
    found = {
        name: {
            "steps": method.steps,
            "entropy": method.entropy,
            **{preset: _terms(known[name].terms) for preset, known in presets.items()},
        }
        for name, method in METHODS.items()
    }
    show(found, as_json)


@catalogs.command()
def models(as_json: options.AsJson = False) -> None:
    """List the models that load by name; files, folders, hf-hub: and hf: names load as well."""
    from tammes.backbones import list_models

    show({name: {} for name in list_models()}, as_json)


@catalogs.command()
def datasets(as_json: options.AsJson = False) -> None:
    """List the benchmarks, with the preset and the views that were published for them."""
    from tammes.datasets import CATALOG

    show({name: _benchmark(entry) for name, entry in CATALOG.items()}, as_json)


@catalogs.command()
def templates(as_json: options.AsJson = False) -> None:
    """List the templates; a set of several serves zero-shot only."""
    from tammes.datasets import TEMPLATES

    found = {
        name: {"count": len(texts), "first": texts[0], **({"all": texts} if as_json else {})}
        for name, texts in TEMPLATES.items()
    }
    show(found, as_json)


def _terms(terms: tuple[tuple[float, Any], ...]) -> str:
    """Write terms as --term takes them."""
    from tammes.regularizers import REGULARIZERS

    names = {kind: name for name, kind in REGULARIZERS.items()}
    return " ".join(f"{names[type(term)]}:{weight:g}" for weight, term in terms) or "–"


def _benchmark(entry: Any) -> dict[str, Any]:
    names = ("classes", "images", "preset", "augmix", "license", "page")
    return {name: getattr(entry, name) for name in names}


def show(found: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """Write a list of objects, or a table with a line per name."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if as_json:
        listed = [{"name": name, **about} for name, about in found.items()]
        echo(json.dumps(listed, indent=1, ensure_ascii=False))
        return
    fields = list(next(iter(found.values())))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Name", *(field.capitalize() for field in fields)):
        table.add_column(title, overflow="fold", no_wrap=title == "Name")
    for name, about in found.items():
        table.add_row(Text(name, "bold"), *(Text(_cell(about[field])) for field in fields))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value}"
