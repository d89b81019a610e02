"""Rows of a benchmark for people: a line as it is measured, a table at the end, Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from tammes.benchmark.results import Results, tflops

Row = Mapping[str, Any]


def line(row: Row) -> str:
    """Write one row, one failure or the head of a run as a line."""
    if "machine" in row:
        return (
            f"{row['model']} in {row['precision']} on {row['machine']}, torch {row['torch']}: "
            f"matmul {row['matmul_tflops']:.3g} TFLOP/s, {row['views']} views"
        )
    words = [name_of(row), *(write(row[key]) for key, write in WRITTEN.items() if key in row)]
    return ", ".join(words)


def name_of(row: Row) -> str:
    """Name what a row measured."""
    where = "" if row.get("classes") is None else f" N={row['classes']}"
    detail = next((row[key] for key in ("way", "gradient", "method") if row.get(key)), "")
    return " ".join(filter(None, (f"{row['part']}{where}", detail)))


WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "ms": lambda v: f"{v:.4g} ms ({1e3 / v:,.4g} images/s)",
    "five_ms": lambda v: f"five methods {v:.4g} ms",
    "prepare_s": lambda v: f"ready in {v:.2f} s",
    "chosen": lambda v: "chosen" if v else "not chosen",
    "peak_gb": lambda v: f"peak {v:.2f} GB",
    "cosine_min": lambda v: f"least cosine {v:.6f}",
    "same_argmax": lambda v: f"same answer {v:.2%}",
    "gap_median": lambda v: f"confidence gap median {v:.1e}",
    "gap_max": lambda v: f"max {v:.1e}",
    "engine_off_spec": lambda v: f"engine off specification {v:.0e}",
    "reason": lambda v: f"FAILED: {v}",
}


@dataclass(frozen=True)
class Line:
    """One line of the table: a title and the rows it shows."""

    title: str
    part: str
    wanted: Mapping[str, Any]


LINES = (
    Line("plain loop", "loop", {"way": "plain"}),
    Line("released script", "loop", {"way": "released"}),
    Line("from pixels", "encode", {}),
    Line("from JPEG files", "files", {}),
    Line("plain loop, stored", "loop", {"way": "stored"}),
    Line("stored features", "stored", {"chosen": True}),
)
FIVE = "stored, 5 methods"
COLUMNS = ("", "N", "ms/image", "images/s", "× plain", "TFLOP/s", "% peak", "GB")
AGREEMENT = ("", "N", "images", "same answer", "confidence gap: median", "largest")


def cells(results: Results, title: str, row: Row) -> list[str]:
    """Write the cells of one row of the table."""
    ratio = results.ratio(row)
    return [
        title,
        f"{row['classes']:,}",
        f"{row['ms']:.4g}",
        f"{1e3 / row['ms']:,.4g}",
        "" if ratio is None else f"{ratio:.3g}",
        f"{tflops(row):.3g}",
        f"{100 * results.share(row):.1f}",
        f"{row['peak_gb']:.2f}",
    ]


def body(results: Results) -> list[list[str]]:
    """List the table's rows, five methods together as a line of their own."""
    rows = []
    for one in LINES:
        rows += [cells(results, one.title, row) for row in results.find(one.part, **one.wanted)]
    for row in results.find("stored", chosen=True):
        written = cells(results, FIVE, {**row, "ms": row["five_ms"]})
        rows.append([*written[:4], "", "", "", written[7]])
    return rows


def agreement(results: Results) -> list[list[str]]:
    """List how far the answers are from the specification in fp32."""
    return [
        [row["method"], f"{row['classes']:,}", f"{row['images']:,}", f"{row['same_argmax']:.2%}",
         f"{row['gap_median']:.1e}", f"{row['gap_max']:.1e}"]
        for row in results.find("agreement")
    ]  # fmt: skip


def speeds(results: Results) -> dict[str, dict[int, float]]:
    """Give images per second by way and number of classes, for the figure."""
    found = {
        one.title: {r["classes"]: 1e3 / r["ms"] for r in results.find(one.part, **one.wanted)}
        for one in LINES
    }
    return {title: curve for title, curve in found.items() if curve}


def tables(results: Results) -> list[Table]:
    """Lay the results out for a terminal."""
    made = []
    for columns, rows in ((COLUMNS, body(results)), (AGREEMENT, agreement(results))):
        if rows:
            made.append(Table(box=None, pad_edge=False, header_style="bold"))
            for index, title in enumerate(columns):
                made[-1].add_column(title, justify="right" if index else "left", no_wrap=not index)
            for row in rows:
                made[-1].add_row(*row)
    return made


def markdown(results: Results) -> str:
    """Write the results as a Markdown section: machine, command, commit, tables."""
    about = results.about
    head = (
        f"{about['machine']}; {about['model']} in {about['precision']}, {about['views']} views, "
        f"torch {about['torch']}; measured matmul peak {about['matmul_tflops']:.3g} TFLOP/s. "
        f"Command `{about['command']}`, commit `{about['commit'] or 'unknown'}`."
    )
    grids = [_grid(COLUMNS, body(results)), _grid(AGREEMENT, agreement(results))]
    return "\n\n".join(filter(None, (head, *grids, "\n".join(remarks(results))))) + "\n"


def remarks(results: Results) -> list[str]:
    """Say what the tables have no column for, and what was not measured."""
    told = [row for row in results.rows if row["part"] in ("image", "stored", "fp8")]
    return [f"- {line(row)}" for row in [*told, *results.failures]]


def _grid(head: tuple[str, ...], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), rule, *rows])
