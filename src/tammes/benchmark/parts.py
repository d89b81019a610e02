"""The parts of a benchmark: each measures one way to answer and gives rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from tammes.backbones import Backbone
from tammes.benchmark import floor
from tammes.benchmark.measuring import median_ms, peak_gb, reset_peak, seconds
from tammes.benchmark.plain import answer_as_released, answer_plainly, answer_stored
from tammes.benchmark.plan import Plan
from tammes.benchmark.workload import classnames, drawn_features
from tammes.encoder import ImageEncoder
from tammes.engine import Engine
from tammes.method import METHODS
from tammes.prompts import Prompt
from tammes.tuner import tune
from tammes.views import ViewSettings

Row = dict[str, Any]
FIVE = ("zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt")
METHOD = METHODS["a-tpt"]


@dataclass(frozen=True, eq=False)
class Models:
    """One model twice: as it answers here, and in fp32, for the plain loop and as the yardstick."""

    fast: Backbone
    full: Backbone

    @property
    def device(self) -> torch.device:
        """Where both live."""
        return self.fast.device

    def pixels(self, images: int, views: int) -> Float[Tensor, "v 3 s s"]:
        """Draw normalized pixels of some images' views."""
        size = self.fast.preprocessing.size
        draw = torch.Generator().manual_seed(0)
        one = torch.randn(views, 3, size, size, generator=draw).to(self.device)
        return one.repeat(images, 1, 1, 1)

    @cached_property
    def image_flops(self) -> float:
        """Count what one view needs."""
        return floor.image_flops(self.full)


def image_tower(models: Models, plan: Plan) -> Iterator[Row]:
    """Time the image tower alone, as arranged here and as the library runs it."""
    fast, device = models.fast, models.device
    pixels = models.pixels(plan.together, plan.views).to(fast.dtype)
    flops = models.image_flops * plan.views
    ways = {"arranged": fast.encode_image, "library": torch.no_grad()(fast.encode_image_plainly)}
    for name, encode in ways.items():
        reset_peak(device)
        ms = median_ms(partial(encode, pixels), device, plan.repeats, 2) / plan.together
        yield {"way": name, "ms": ms, "flops": flops, "peak_gb": peak_gb(device)}
    yield {"way": "difference", **feature_error(models, fast, pixels[: plan.views])}


@torch.no_grad()
def feature_error(models: Models, other: Backbone, pixels: Tensor) -> Row:
    """Compare features with those of the library in fp32."""
    ours, theirs = other.encode_image(pixels), models.full.encode_image_plainly(pixels)
    cosine = cosine_similarity(ours.float(), theirs.float(), dim=-1)
    return {"cosine_min": float(cosine.min()), "cosine_mean": float(cosine.mean())}


@dataclass(frozen=True, eq=False)
class Case:
    """One number of classes: its prompt, its features and the work that answers need."""

    models: Models
    plan: Plan
    classes: int

    @cached_property
    def prompt(self) -> Prompt:
        """Real class names in the usual template."""
        return Prompt.from_template(self.models.fast, classnames(self.classes))

    @cached_property
    def engine(self) -> Engine:
        """The engine as it prepares itself for many images."""
        return Engine(self.models.fast, self.prompt, images=self.plan.expected)

    @cached_property
    def flops(self) -> float:
        """Count what an answer from stored features needs."""
        return floor.answer_flops(self.models.full, self.prompt, self.plan.views)

    def features(self, images: int) -> Tensor:
        """Draw view features around the classes."""
        start = self.engine.start
        assert start is not None
        scale = float(self.models.fast.scale)
        return drawn_features(start, scale, images, self.plan.views).to(self.models.device)

    # The ways to answer

    def loop(self) -> Iterator[Row]:
        """Time the plain loop, the released A-TPT script's, which does more, and the text alone."""
        full, plan, device = self.models.full, self.plan, self.models.device
        prompt = Prompt.from_template(full, classnames(self.classes))
        pixels = self.models.pixels(1, plan.views)
        (features,) = self.features(1)
        encoding = self.models.image_flops * plan.views
        ways = {
            "plain": (lambda: answer_plainly(full, prompt, pixels, METHOD), encoding),
            "released": (lambda: answer_as_released(full, prompt, pixels), encoding),
            "stored": (lambda: answer_stored(full, prompt, features, METHOD), 0.0),
        }
        for name, (answer, more) in ways.items():
            reset_peak(device)
            ms = median_ms(answer, device, plan.repeats)
            yield {"way": name, "ms": ms, "flops": self.flops + more, "peak_gb": peak_gb(device)}

    def encode(self) -> Iterator[Row]:
        """Time the engine from pixels on the device to answers."""
        plan, device, batch = self.plan, self.models.device, self._encoded_together()
        pixels = self.models.pixels(plan.together, plan.views).to(self.models.fast.dtype)
        passes = batch // plan.together

        def answer() -> None:
            found = [self.models.fast.encode_image(pixels) for _ in range(passes)]
            rows = normalize(torch.cat(found), dim=-1).unflatten(0, (-1, plan.views))
            self.engine.predict(rows, [METHOD])

        reset_peak(device)
        ms = median_ms(answer, device, plan.repeats) / batch
        flops = self.flops + self.models.image_flops * plan.views
        yield {"ms": ms, "flops": flops, "batch": batch, "gradient": self.engine.gradient,
               "peak_gb": peak_gb(device)}  # fmt: skip

    def _encoded_together(self) -> int:
        passes = max(1, min(64, self.plan.batch(self.classes)) // self.plan.together)
        return passes * self.plan.together

    def files(self, paths: Sequence[Path]) -> Iterator[Row]:
        """Time everything: JPEG files in, probabilities out."""
        device, backbone = self.models.device, self.models.fast
        settings = ViewSettings(self.plan.views)
        pictures = [Photo(path) for path in paths]
        encoder = ImageEncoder(backbone, self.plan.together * self.plan.views)
        engine = self.engine  # prepared once, which the stored features count

        def answer() -> None:
            encoded = encoder.ahead(pictures, settings)
            while group := list(islice(encoded, self.plan.together)):
                found = torch.stack([row for row in group if isinstance(row, Tensor)])
                engine.predict(found, [METHOD])[0].probs.cpu()

        reset_peak(device)
        ms = 1e3 * seconds(answer, device) / len(paths)
        flops = self.flops + self.models.image_flops * self.plan.views
        yield {"ms": ms, "flops": flops, "files": len(paths), "peak_gb": peak_gb(device)}

    def stored(self, both: bool = True) -> Iterator[Row]:
        """Time the engine on stored features, one method and five together.

        The way to take gradients that it chooses for many images comes first, then the other one.
        """
        device = self.models.device
        reset_peak(device)
        ready = seconds(lambda: self.engine, device)
        yield {**self._answering(self.engine), "prepare_s": ready, "chosen": True}
        other: Literal["vjp", "jacobian"]
        other = "vjp" if self.engine.gradient == "jacobian" else "jacobian"
        if not both or self.models.fast.causal is None:
            return
        made: list[Engine] = []
        reset_peak(device)
        ready = seconds(lambda: made.append(self._prepared(other)), device)
        yield {**self._answering(made[0]), "prepare_s": ready, "chosen": False}

    def _answering(self, engine: Engine) -> Row:
        plan, device, batch = self.plan, self.models.device, self.plan.batch(self.classes)
        features = self.features(batch)
        five = [METHODS[name] for name in FIVE]
        one = median_ms(lambda: engine.predict(features, [METHOD]), device, plan.repeats)
        many = median_ms(lambda: engine.predict(features, five), device, min(3, plan.repeats))
        return {"ms": one / batch, "five_ms": many / batch, "batch": batch,
                "gradient": engine.gradient, "flops": self.flops,
                "peak_gb": peak_gb(device)}  # fmt: skip

    def _prepared(self, gradient: Literal["vjp", "jacobian"]) -> Engine:
        return Engine(self.models.fast, self.prompt, images=self.plan.expected, gradient=gradient)

    def agreement(self) -> Iterator[Row]:
        """Compare answers with the specification in fp32.

        The engine answers in fp32 for all images; a few are checked against `tune` itself.
        """
        full = self.models.full
        count = self.plan.compared if self.classes <= 100 else -(-self.plan.compared // 4)
        features = self.features(count)
        methods = [METHODS[name] for name in FIVE]
        prompt = Prompt.from_template(full, classnames(self.classes))
        ours = self.engine.predict(features, methods)
        exact = Engine(full, prompt, gradient="vjp")
        theirs = exact.predict(features, methods)
        spec = tune(full, prompt, METHOD, features[0]).logits
        for name, a, b in zip(FIVE, ours, theirs, strict=True):
            gap = (a.probs.amax(-1) - b.probs.amax(-1)).abs()
            same = (a.logits.argmax(-1) == b.logits.argmax(-1)).float().mean()
            row = {"method": name, "images": count, "same_argmax": float(same),
                   "gap_max": float(gap.max()), "gap_median": float(gap.median()),
                   "confidence": float(b.probs.amax(-1).mean())}  # fmt: skip
            if name == "a-tpt":
                row["engine_off_spec"] = float((b.logits[0] - spec).abs().max())
            yield row


@dataclass(frozen=True)
class Photo:
    """A file, as the renderer takes it."""

    path: Path

    @property
    def id(self) -> str:
        """What its random views are drawn from."""
        return self.path.name

    def open(self) -> Path:
        """Return what it can be read from."""
        return self.path
