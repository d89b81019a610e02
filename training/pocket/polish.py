"""Stage C: both towers together learn to tell any cut of the hypernym tree apart, blurred too.

Stage B's tower comes close to where names were placed; what is left is corrected here, where it
shows: in the posterior over names. Classes go by any of their names, blurred pictures have the
posterior of the sharp ones, and whatever is not taught stays where it was.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from distill import Writer, pace
from examine import captions_but
from gallery import Classroom, GallerySettings, rows_of, soft_entropy
from jaxtyping import Float, Int
from lesson_data import Lessons
from quantized import restore_all
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from tower import TextTower
from train import save_model


@dataclass(frozen=True)
class PolishSettings:
    """What stage C does; the defaults are those of the shipped model."""

    steps: int = 600
    images: int = 2048
    classes: int = 288
    anchors: int = 96
    captions: int = 48
    lr: float = 2e-4
    image_lr: float = 5e-4
    keep_text: float = 10.0
    keep_images: float = 2.0
    contrast: float = 0.1
    blurred: float = 0.5
    curated: float = 0.6
    seed: int = 0


class Eye(nn.Module):
    """The image projection, moved in the space of the packed features."""

    def __init__(self, weights: dict[str, Tensor], lessons: Lessons) -> None:
        super().__init__()
        self.basis, self.mean = lessons.tensors["images.basis"], lessons.tensors["images.mean"]
        self.whole = weights["visual.head.proj.weight"]
        start = self.whole @ self.basis
        self.weight = nn.Parameter(start.clone())
        self.bias = nn.Parameter(weights["visual.head.proj.bias"] + self.whole @ self.mean)
        self.start = (start, self.bias.detach().clone())

    def forward(self, packed: Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Return unit features."""
        return F.normalize(packed @ self.weight.T + self.bias, dim=-1)

    def before(self, packed: Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Return unit features as they were."""
        return F.normalize(packed @ self.start[0].T + self.start[1], dim=-1)

    def unpacked(self) -> dict[str, Tensor]:
        """Write the projection for the trunk's own 1280 features."""
        weight = self.whole + (self.weight.detach() - self.start[0]) @ self.basis.T
        bias = self.bias.detach() - weight @ self.mean
        return {"visual.head.proj.weight": weight, "visual.head.proj.bias": bias}


@dataclass
class Lens:
    """Sharp pictures and the same pictures blurred."""

    room: Classroom
    settings: PolishSettings

    def __post_init__(self) -> None:
        pool, train = self.room.lessons.images, self.room.lessons.tensors["tiny.train"]
        tiny, blurred = pool["tiny"][train], pool["tiny.coarse"][train]
        self.sharp = torch.cat([pool["center"], tiny])
        self.blurred = torch.cat([pool["coarse"], blurred])

    def draw(self) -> tuple[Float[Tensor, "n f"], Float[Tensor, "n f"]]:
        """Return pictures as the teacher sees them and as the student does, some mixed in pairs.

        Some are moved toward a class that no picture shows, as in stage A.
        """
        device = self.sharp.device
        rows = rows_of(len(self.sharp), self.settings.images, device)
        sharp, seen = self.sharp[rows], self.sharp[rows]
        blur, dream, share, mixed = torch.rand(4, len(rows), 1, device=device)
        seen = torch.where(blur < self.settings.blurred, self.blurred[rows], seen)
        imagined = self.room.settings.imagined
        means = self.room.imagination[rows_of(1000, len(rows), device)]
        strength = (dream < imagined) * (0.5 + dream / imagined)
        keep = torch.where(strength > 0, share, 1.0)
        lift = strength * means
        part = torch.where(mixed < 0.5, torch.rand_like(share), 1.0)
        both = [keep * x + lift for x in (sharp, seen)]
        first, second = (part * x + (1 - part) * x.roll(1, dims=0) for x in both)
        return first, second


@dataclass
class Polish:
    """What stage C draws its batches from, and the two towers that learn."""

    room: Classroom
    lens: Lens
    writer: Writer
    tower: TextTower
    eye: Eye
    settings: PolishSettings

    def __post_init__(self) -> None:
        self.frozen = copy.deepcopy(self.tower).requires_grad_(False)
        kinds = ("classes", "nodes")
        taught = torch.cat([self.room.lessons.entries(k).strings.flatten() for k in kinds])
        every = torch.arange(len(self.room.lessons.tokens("names")), device=taught.device)
        self.others = every[~torch.isin(every, taught)]

    def losses(self, step: int) -> dict[str, Tensor]:
        """Compute the weighted parts of the loss."""
        sharp, seen = self.lens.draw()
        images = self.eye(seen)
        kept = 1 - (images * self.eye.before(seen)).sum(dim=1)
        text, contrast = self._others(), self._captions()
        return {
            "names": self._names(step, sharp, images),
            "images": self.settings.keep_images * kept.mean(),
            "text": self.settings.keep_text * text,
            "captions": contrast,
        }

    def _names(self, step: int, sharp: Tensor, images: Tensor) -> Tensor:
        """Match the posterior over a random cut of the hypernyms and some of the classes left."""
        lessons, room = self.room.lessons, self.room
        nodes, free = room.cuts[step % len(room.cuts)]
        left = free.nonzero().squeeze(1)
        left = left[torch.randperm(len(left), device=left.device)[: self.settings.classes]]
        classes, above = lessons.entries("classes")[left], lessons.entries("nodes")[nodes]
        rows = [e.draw(self.settings.curated) for e in (classes, above)]
        found = read(self.tower, self.writer.prompts(torch.cat(rows)))
        target, _ = room.posterior(sharp)
        wanted = torch.cat([target[:, left], target @ lessons.leaves[nodes].float().T], dim=1)
        mass = wanted.sum(dim=1)
        logits = self.tower.logit_scale.exp() * images @ found.T
        return soft_entropy(logits, wanted / mass.clamp_min(1e-6)[:, None], mass)

    def _others(self) -> Tensor:
        """Say how far names that nobody teaches have moved."""
        rows = self.others[rows_of(len(self.others), self.settings.anchors, self.others.device)]
        prompts = self.writer.prompts(rows)
        return (1 - (read(self.tower, prompts) * read(self.frozen, prompts)).sum(dim=1)).mean()

    def _captions(self) -> Tensor:
        """Contrast captions with their pictures, and keep them where they were."""
        pool = self.room.captions
        rows = pool[rows_of(len(pool), self.settings.captions, pool.device)]
        prompts = self.writer.captions(rows)
        found, before = read(self.tower, prompts), read(self.frozen, prompts)
        moved = (1 - (found * before).sum(dim=1)).mean()
        images = self.eye(self.room.lessons.images["center"][rows])
        logits = self.tower.logit_scale.exp() * images @ found.T
        same = torch.arange(len(rows), device=rows.device)
        contrast = (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2
        return 0.25 * self.settings.keep_text * moved + self.settings.contrast * contrast


def read(tower: TextTower, tokens: Int[Tensor, "n l"], parts: int = 4) -> Float[Tensor, "n d"]:
    """Read sentences of like length together: no time goes into padding."""
    lengths = tokens.argmax(dim=1) + 1
    order = lengths.argsort()
    groups = [rows for rows in order.chunk(parts) if len(rows)]
    found = [tower(tokens[rows, : int(lengths[rows].max())]) for rows in groups]
    return torch.cat(found)[order.argsort()]


def polish(work: Polish) -> None:
    """Run stage C."""
    settings = work.settings
    torch.manual_seed(settings.seed)
    groups = [
        {"params": list(work.tower.parameters()), "lr": settings.lr},
        {"params": list(work.eye.parameters()), "lr": settings.image_lr},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: pace(step / settings.steps))
    start = time.monotonic()
    for step in range(settings.steps):
        with torch.autocast(work.others.device.type, torch.bfloat16):
            losses = work.losses(step)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        nn.utils.clip_grad_norm_(work.tower.parameters(), 1.0)
        optimizer.step()
        plan.step()
        if step % 25 == 24:
            shown = " ".join(f"{name} {value.item():.3f}" for name, value in losses.items())
            print(f"polish {step + 1}: {shown}, {time.monotonic() - start:.0f} s", flush=True)


def read_start(path: Path) -> dict[str, Tensor]:
    """Read what stage B left, or a model that was exported."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return restore_all({name: w for file in files for name, w in load_file(file).items()})


def prepare(lessons: Lessons, weights: dict[str, Tensor], settings: PolishSettings) -> Polish:
    """Set both towers up where stage B left them."""
    everything = torch.ones_like(lessons.head[1], dtype=torch.bool)
    room = Classroom(lessons, {}, everything, captions_but(lessons, 0), GallerySettings())
    tower = TextTower().to(everything.device)
    tower.load_state_dict({n: w for n, w in weights.items() if not n.startswith("visual.")})
    eye = Eye(weights, lessons).to(everything.device)
    return Polish(room, Lens(room, settings), Writer(lessons), tower, eye, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lessons", type=Path, default=Path(".carry/pocket/lessons"))
    parser.add_argument("--start", type=Path, default=Path(".work/pocket/trained/model"))
    parser.add_argument("--out", type=Path, default=Path(".work/pocket/polished"))
    parser.add_argument("--steps", type=int, default=PolishSettings.steps)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = PolishSettings(steps=options.steps)
    lessons = Lessons.load(options.lessons, device)
    weights = {name: w.to(device) for name, w in read_start(options.start).items()}
    work = prepare(lessons, weights, settings)
    polish(work)
    save_model(work.tower, work.eye.unpacked(), options.out / "model")
    (options.out / "polish.json").write_text(json.dumps(asdict(settings), indent=1))


if __name__ == "__main__":
    main()
