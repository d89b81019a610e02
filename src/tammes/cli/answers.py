"""Answers as JSON and CSV for programs, and as a table with bars for people."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tammes.classifier import Answer

BAR = 24


@dataclass(frozen=True)
class Row:
    """One image of a command line, with its answer."""

    path: str
    method: str
    classes: tuple[str, ...]
    answer: Answer

    @property
    def error(self) -> str | None:
        """Why there is no answer, without the path."""
        reason = self.answer.error
        if reason is None:
            return None
        if _is_folder(self.path):
            return "no image in this folder"
        return reason.removeprefix(f"{self.path}: ")

    def probabilities(self, top: int | None = None) -> dict[str, float]:
        """The most probable classes first, or all classes in their order."""
        probs = dict(zip(self.classes, self.answer.probs.tolist(), strict=True))
        if top is None:
            return probs
        return dict(sorted(probs.items(), key=lambda pair: -pair[1])[:top])

    def record(self, top: int | None) -> dict[str, Any]:
        """The answer as JSON has it."""
        if self.error is not None:
            return {"path": self.path, "prediction": None, "confidence": None,
                    "probabilities": None, "method": self.method, "error": self.error}  # fmt: skip
        return {
            "path": self.path,
            "prediction": self.answer.prediction,
            "confidence": self.answer.confidence,
            "probabilities": self.probabilities(top),
            "method": self.method,
        }


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # a name that no file could have
        return False


def write_json(rows: Iterable[Row], top: int | None) -> int:
    """Write a list, one object per image, as they come; count those without an answer."""
    failed, lead = 0, "[\n"
    for row in rows:
        line = json.dumps(row.record(top), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(f"{lead}{line}")
        failed, lead = failed + (row.error is not None), ",\n"
    sys.stdout.write("\n]\n")
    return failed


def write_csv(rows: Iterable[Row], classes: Sequence[str]) -> int:
    """Write one line per image, as they come; count those without an answer."""
    columns = [f"p({name})" for name in classes]
    head = ["path", "prediction", "confidence", "method", "error", *columns]
    writer, failed = csv.DictWriter(sys.stdout, head, lineterminator="\n"), 0
    writer.writeheader()
    for row in rows:
        record = row.record(None)
        probabilities = record.pop("probabilities") or {}
        writer.writerow({**record, **{f"p({name})": p for name, p in probabilities.items()}})
        failed += row.error is not None
    return failed


def write_table(rows: Iterable[Row], top: int) -> int:
    """Draw the most probable classes of each image; count those without an answer."""
    from rich.bar import Bar
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, failed = Table(box=None, pad_edge=False, show_header=False), []
    table.add_column(overflow="fold", ratio=2)
    table.add_column(overflow="fold", ratio=2)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=BAR)
    for row in rows:
        if row.error is not None:
            failed.append(Text.assemble(row.path, "  ", (row.error, "red")))
            continue
        for rank, (name, prob) in enumerate(row.probabilities(top).items()):
            style = "dim" if rank else "bold"
            image = Text("" if rank else row.path)
            table.add_row(image, Text(name, style), f"{prob:.1%}", Bar(1, 0, prob, width=BAR))
    console = Console()
    if table.row_count:
        console.print(table)
    for line in failed:
        console.print(line, soft_wrap=True)
    return len(failed)
