"""What a benchmark found: rows of numbers, and what they were measured on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tammes.errors import StoreError
from tammes.storage import write_atomically

FORMAT = 1


@dataclass
class Results:
    """The machine, the rows in the order they were measured, and the parts that failed."""

    about: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def find(self, part: str, **wanted: Any) -> list[dict[str, Any]]:
        """List the rows of a part that have these values."""
        return [
            row for row in self.rows
            if row["part"] == part and all(row.get(k) == v for k, v in wanted.items())
        ]  # fmt: skip

    def one(self, part: str, **wanted: Any) -> Mapping[str, Any] | None:
        """Give the only row of that kind, if it was measured."""
        found = self.find(part, **wanted)
        return found[0] if found else None

    def ratio(self, row: Mapping[str, Any]) -> float | None:
        """Say how many times longer the plain loop takes, from pixels or from features alike."""
        alike = "stored" if row["part"] == "stored" or row.get("way") == "stored" else "plain"
        loop = self.one("loop", classes=row.get("classes"), way=alike)
        return loop["ms"] / row["ms"] if loop else None

    def share(self, row: Mapping[str, Any]) -> float:
        """Give the needed arithmetic per second as a share of the measured matmul peak."""
        return tflops(row) / self.about["matmul_tflops"]

    @property
    def classes(self) -> list[int]:
        """The class counts that any part was measured at."""
        return sorted({row["classes"] for row in self.rows if row.get("classes")})

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        record = json.dumps({"format": FORMAT, **asdict(self)}, indent=1)
        write_atomically(path, (record + "\n").encode())


def tflops(row: Mapping[str, Any]) -> float:
    """Give the needed arithmetic over the time, in TFLOP/s: redundant work earns nothing."""
    return float(row["flops"] / row["ms"] / 1e9)


def read_results(path: str | Path) -> Results:
    """Read what `Results.save` wrote."""
    try:
        record = json.loads(Path(path).read_bytes())
        if record.pop("format") != FORMAT:
            raise StoreError(f"{path} is of another format: run the benchmark again")
        return Results(**record)
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StoreError(f"{path} is not the JSON of a benchmark: {problem!r}") from problem
