"""The published numbers: every cell as printed, and what follows from the cells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from tammes.datasets import CATALOG

AVERAGE = "average"
EXACT, ROUNDED = 0.005, 0.055  # printed with two decimals, or with one
Status = Literal["agrees", "rounding", "DISAGREES"]

# What the papers call our methods; they write A-TPT's rows on top of others in several ways.
METHOD_NAMES: Mapping[str, str] = {
    "Baseline": "zero-shot",
    "zero-shot (hard prompt)": "zero-shot",
    "TPT": "tpt",
    "C-TPT": "c-tpt",
    "O-TPT": "o-tpt",
    "A-TPT": "a-tpt",
    "A-TPT (Ours)": "a-tpt",
    "TPT + A-TPT": "a-tpt",
    "C-TPT + A-TPT": "c-tpt+a-tpt",
    **{
        f"{before}{start}{after}": method
        for start in ("CoOp", "CoCoOp")
        for before, after, method in (
            ("Baseline + ", "", "zero-shot"),
            ("TPT + ", "", "tpt"),
            ("TPT + ", " + C-TPT", "c-tpt"),
            ("TPT + ", " + O-TPT", "o-tpt"),
            ("TPT + ", " + A-TPT", "a-tpt"),
        )
    },
}


@dataclass(frozen=True)
class Metric:
    """A published column: our metric, and the factor from our numbers to the printed ones."""

    name: str
    factor: float


METRIC_NAMES: Mapping[str, Metric] = {
    "Acc": Metric("accuracy", 100.0),
    "ECE": Metric("ece", 100.0),
    "SCE": Metric("sce", 100.0),
    "AD": Metric("angle", 1.0),
    "std_Acc": Metric("accuracy", 100.0),
    "std_ECE": Metric("ece", 100.0),
}


@dataclass(frozen=True)
class PublishedCell:
    """One printed number; `method` and `metric` are in the paper's words."""

    table: str
    backbone: str
    prompt: str
    method: str
    metric: str
    dataset: str
    printed: str
    bold: bool = False
    section: str = ""
    group: str = ""

    @property
    def value(self) -> float:
        """The number: '50,000' is 50000, '±.12' is .12, and the paper's '±.0.11' is .11."""
        text = self.printed.lstrip("±").replace(",", "")
        return float(text.lstrip(".") if text.count(".") > 1 else text)

    @property
    def step(self) -> float:
        """One unit of the last printed digit."""
        return 10.0 ** -len(self.printed.rpartition(".")[2]) if "." in self.printed else 1.0

    @property
    def key(self) -> str:
        """The method by our name, or the paper's where it is none of ours."""
        return METHOD_NAMES.get(self.method, self.method)

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """What the cells of one printed row share."""
        return self.table, self.backbone, self.prompt, self.method, self.metric


@dataclass(frozen=True)
class Average:
    """A printed number that others of the paper determine, beside what they give."""

    table: str
    backbone: str
    prompt: str
    method: str
    metric: str
    column: str
    printed: float
    recomputed: float

    @property
    def status(self) -> Status:
        """Whether the printed number follows: exactly, up to a decimal, or not at all."""
        off = abs(round(self.printed - self.recomputed, 6))
        return "agrees" if off <= EXACT else "rounding" if off <= ROUNDED else "DISAGREES"


@dataclass(frozen=True)
class Claim:
    """A sentence of the text that tables or code contradict."""

    where: str
    claim: str
    table: str
    fact: str


@lru_cache(maxsize=1)
def asset() -> Mapping[str, Any]:
    """Parse the packaged record of the paper."""
    path = resources.files("tammes") / "assets" / "paper" / "tables.json"
    return json.loads(path.read_text("utf-8"))


@lru_cache(maxsize=1)
def published() -> tuple[PublishedCell, ...]:
    """List every printed number, table by table."""
    return tuple(cell for series in asset()["series"] for cell in _cells(series))


def _cells(series: Mapping[str, Any]) -> Iterator[PublishedCell]:
    about = {
        name: series.get(name, "")
        for name in ("table", "backbone", "prompt", "method", "metric", "section", "group")
    }
    for dataset, printed in series["cells"].items():
        bold = dataset in series.get("bold", ())
        yield PublishedCell(**about, dataset=dataset, printed=printed, bold=bold)


@lru_cache(maxsize=1)
def claims() -> tuple[Claim, ...]:
    """List what the text says and the tables or the code do not."""
    rows = asset()["claims"]
    return tuple(
        Claim(r["where"], r["claim"], r["table"] or "", f"{r['table_value']}") for r in rows
    )


def notes(table: str) -> tuple[str, ...]:
    """List remarks on a table."""
    return tuple(asset()["tables"][table]["notes"])


@lru_cache(maxsize=1)
def disagreeing() -> tuple[Average, ...]:
    """List the printed averages that do not follow from their cells."""
    return tuple(a for a in (*averages(), *derived()) if a.status == "DISAGREES")


def follows(cell: PublishedCell) -> bool:
    """Say whether a number may be held to what is printed: not to an average of other cells."""
    return (*cell.row, cell.dataset) not in _unfounded()


@lru_cache(maxsize=1)
def _unfounded() -> frozenset[tuple[str, ...]]:
    return frozenset(
        (a.table, a.backbone, a.prompt, a.method, a.metric, a.column) for a in disagreeing()
    )


# --- what follows from the cells ----------------------------------------------------------------

LARGE = ("imagenet", "imagenet_v2", "imagenet_sketch")  # more classes than ViT-B/16 has dimensions
SOURCES = ("tab:finegrained", "tab:natural")


def averages() -> Iterator[Average]:
    """Recompute every printed average from the cells of its row."""
    rows: dict[tuple[str, str, str, str, str], list[PublishedCell]] = {}
    for cell in published():
        rows.setdefault(cell.row, []).append(cell)
    for cells in rows.values():
        printed = next((c for c in cells if c.dataset == AVERAGE), None)
        if printed:
            yield _average(printed, [c.value for c in cells if c is not printed])


def derived() -> Iterator[Average]:
    """Recompute the tables that are made of others: groups of datasets, and weighted averages."""
    for cell in published():
        if cell.table == "tab:group":
            yield _average(cell, _grouped(cell))
        elif cell.table == "tab:weighted":
            parts = _sources(cell)
            sizes = {name: CATALOG[name].images or 0 for name in parts}
            total = sum(sizes.values())
            yield _average(cell, [sum(parts[n] * sizes[n] for n in parts) / total])


def _average(printed: PublishedCell, values: Iterable[float]) -> Average:
    listed = list(values)
    table, backbone, prompt, method, metric = printed.row
    mean = sum(listed) / len(listed)
    return Average(table, backbone, prompt, method, metric, printed.dataset, printed.value, mean)


def _grouped(cell: PublishedCell) -> list[float]:
    """List what a cell of the table of groups averages; overall is the mean of the two groups."""
    parts = _sources(cell)
    large = [value for name, value in parts.items() if name in LARGE]
    small = [value for name, value in parts.items() if name not in LARGE]
    if cell.dataset == "overall":
        return [sum(group) / len(group) for group in (large, small)]
    return large if cell.dataset.startswith("group1") else small


def _sources(cell: PublishedCell) -> dict[str, float]:
    """Find the cells of the 15 datasets that a derived cell is made of."""
    return {
        c.dataset: c.value
        for c in published()
        if c.table in SOURCES
        and (c.backbone, c.key, c.metric) == (cell.backbone, cell.key, cell.metric)
        and c.dataset != AVERAGE
    }
