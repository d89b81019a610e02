"""What the methods cost: time and memory of an image, and how a term's time grows with N.

The published table times the published loop on one image's 64 views ("a batch") with ImageNet-V2's
1000 classes. The same loop and the engine are timed here, on the device at hand; times and memory
do not depend on what the weights hold, so pixels are random. Rows are kept: a second command on the
same machine measures nothing.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone
from tammes.benchmark.measuring import machine, peak_gb, reset_peak, seconds
from tammes.benchmark.plain import answer_plainly
from tammes.benchmark.workload import classnames
from tammes.engine import Engine
from tammes.errors import DataError
from tammes.method import METHODS, Method
from tammes.prompts import Prompt
from tammes.statistics import Interval
from tammes.storage import write_atomically

PLAIN, ENGINE, TERM = "plain loop", "engine", "term"
COSTS = "costs.json"
REPEATS = 5
CLASSES: Mapping[str, int] = {"cuda": 1000}
FEW_CLASSES = 100  # elsewhere: the plain loop at 1000 would take 10 GB
MANY = 5000  # images that the engine prepares itself for
SIZES = (250, 500, 1000, 2000)  # classes at which a term is timed
MIB = 1e9 / 2**20


@dataclass(frozen=True)
class Cost:
    """What was timed on which machine: `what` is a way to answer, or "term"; `size` is N.

    Times are seconds per image (all its views) or per term: the median, the least, the most.
    """

    model: str
    what: str
    method: str
    size: int
    views: int
    machine: str
    times: tuple[float, float, float]
    peak_gb: float | None = None
    precision: str = "float32"  # of the engine's model; the plain loop and the terms are fp32

    @property
    def key(self) -> tuple[str | int, ...]:
        """What a cost is found by."""
        return (
            *(self.model, self.what, self.method, self.size, self.views, self.machine),
            self.precision,
        )

    @property
    def seconds(self) -> Interval:
        """The median within the fastest and the slowest."""
        return Interval(*self.times)


Known = dict[tuple[str | int, ...], Cost]


def measure_costs(
    model: str,
    backbone: Backbone,
    full: Backbone,
    methods: Iterable[str],
    views: int,
    known: Known,
) -> Iterator[Cost]:
    """Measure what is not known of this machine yet; `full` is the model in fp32.

    The engine comes last: what it keeps in memory is no part of the plain loop.
    """
    device, listed = backbone.device, list(methods)
    size, where = CLASSES.get(device.type, FEW_CLASSES), machine(device)
    image = _Image(backbone, full, size, views)
    own = str(backbone.dtype).removeprefix("torch.")
    blank = Cost(model, "", "", size, views, where, (0.0, 0.0, 0.0))
    work = [
        (replace(blank, what=what, method=name, precision=precision),
         partial(image.answer, what, METHODS[name]))
        for what, precision in ((PLAIN, blank.precision), (ENGINE, own))
        for name in listed
    ]  # fmt: skip
    work += [
        (replace(blank, what=TERM, method=name, size=count, views=0),
         partial(_term, METHODS[name], count, backbone.dim, device))
        for name in listed
        for count in SIZES
    ]  # fmt: skip
    for row, prepare in work:
        yield known.get(row.key) or _measured(row, prepare(), device)


@dataclass(frozen=True, eq=False)
class _Image:
    """One image's views, and both ways to answer for it, each made ready when it is asked for."""

    backbone: Backbone
    full: Backbone
    size: int
    views: int

    @cached_property
    def pixels(self) -> Tensor:
        side, draw = self.backbone.preprocessing.size, torch.Generator().manual_seed(0)
        return torch.randn(self.views, 3, side, side, generator=draw).to(self.backbone.device)

    @cached_property
    def engine(self) -> Engine:
        prompt = Prompt.from_template(self.backbone, classnames(self.size))
        return Engine(self.backbone, prompt, images=MANY)

    def answer(self, what: str, method: Method) -> Callable[[], object]:
        """Give the work for one image."""
        if what == ENGINE:
            return partial(self._answer, self.engine, self.pixels.to(self.backbone.dtype), method)
        prompt = Prompt.from_template(self.full, classnames(self.size))
        return partial(answer_plainly, self.full, prompt, self.pixels, method)

    def _answer(self, engine: Engine, pixels: Tensor, method: Method) -> None:
        features = normalize(self.backbone.encode_image(pixels).float(), dim=-1)
        engine.predict(features[None], [method])


def _term(method: Method, count: int, dim: int, device: torch.device) -> Callable[[], object]:
    """Give the work for a method's term: its value and its gradient on random classes."""
    draw = torch.Generator().manual_seed(0)
    text = normalize(torch.randn(count, dim, generator=draw), dim=-1).to(device).requires_grad_()
    ((_, term),) = method.terms
    return lambda: torch.autograd.grad(term(text), text)


def _measured(blank: Cost, run: Callable[[], object], device: torch.device) -> Cost:
    """Time some calls after one that does not count."""
    reset_peak(device)
    run()
    times = [seconds(run, device) for _ in range(REPEATS)]
    found = (statistics.median(times), min(times), max(times))
    return replace(blank, times=found, peak_gb=peak_gb(device))


def growth(costs: Iterable[Cost]) -> float | None:
    """Fit the power of N that the fastest times of a term grow with, over the larger sizes."""
    found = sorted((c.size, c.times[1]) for c in costs)[-(len(SIZES) // 2 + 1) :]
    if len(found) < 2:
        return None
    x, y = ([math.log(value) for value in column] for column in zip(*found, strict=True))
    return statistics.linear_regression(x, y).slope


# --- on disk ------------------------------------------------------------------------------------


def read_costs(path: Path) -> Known:
    """Read what was measured; a file that is not there holds nothing."""
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_bytes())
        costs = [Cost(**{**row, "times": tuple(row["times"])}) for row in rows]
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{path} does not hold costs: {problem!r}. Delete it") from problem
    return {cost.key: cost for cost in costs}


def write_costs(known: Known, path: Path) -> None:
    """Keep what was measured, a line per row."""
    rows = ",\n".join("  " + json.dumps(asdict(cost)) for cost in known.values())
    write_atomically(path, f"[\n{rows}\n]\n".encode())
