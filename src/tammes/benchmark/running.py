"""Run the parts of a benchmark in turn; what one part loses, the others keep."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tammes import __version__
from tammes.benchmark.measuring import commit, machine, matmul_tflops
from tammes.benchmark.parts import Case, Models, image_tower
from tammes.benchmark.plan import Plan
from tammes.benchmark.results import Results
from tammes.benchmark.workload import write_photos

Part = Callable[[], Iterable[Mapping[str, Any]]]
Told = Callable[[Mapping[str, Any]], None]


def run(models: Models, plan: Plan, told: Told, out: Path | None = None) -> Results:
    """Measure everything that a plan asks for.

    `told` hears of each row, and of each failure, at once; `out` is the JSON, written anew after
    every part.
    """
    results = Results(about(models, plan))
    told(results.about)
    with tempfile.TemporaryDirectory(prefix="tammes-") as folder:
        paths = write_photos(Path(folder), plan.photos)
        for name, classes, part in parts(models, plan, paths):
            _measure(results, name, classes, part, told)
            if out is not None:
                results.save(out)
    return results


def about(models: Models, plan: Plan) -> dict[str, Any]:
    """Say what is measured on what, and the machine's own ceiling."""
    fast = models.fast
    return {
        "machine": machine(models.device),
        "device": models.device.type,
        "torch": str(torch.__version__),
        "tammes": __version__,
        "commit": commit(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "model": fast.name,
        "precision": str(fast.dtype).removeprefix("torch."),
        "views": plan.views,
        "image_gflop": models.image_flops / 1e9,
        "matmul_tflops": matmul_tflops(models.device, fast.dtype),
    }


def parts(models: Models, plan: Plan, paths: list[Path]) -> Iterator[tuple[str, int | None, Part]]:
    """List the parts, the most telling first: a run that is cut off has said the most."""
    yield "image", None, partial(image_tower, models, plan)
    for classes in plan.classes:
        case = Case(models, plan, classes)
        yield "stored", classes, case.stored
        yield "encode", classes, case.encode
        yield "files", classes, partial(case.files, paths)
        yield "loop", classes, case.loop
        yield "agreement", classes, case.agreement
        del case
    if plan.large:
        yield "stored", plan.large, partial(Case(models, plan, plan.large).stored, both=False)


def _measure(results: Results, name: str, classes: int | None, part: Part, told: Told) -> None:
    start, head = time.perf_counter(), {"part": name, "classes": classes}
    try:
        for row in part():
            results.rows.append({**head, **row})
            told(results.rows[-1])
    except Exception as problem:  # a part may run out of memory, or out of a compiler
        reason = f"{type(problem).__name__}: {str(problem).splitlines()[0][:300]}"
        results.failures.append({**head, "reason": reason})
        told(results.failures[-1])
    if results.about["device"] == "cuda":
        torch.cuda.empty_cache()
    results.about[f"seconds_{name}_{classes}"] = time.perf_counter() - start
