"""Stage B: CLIP's causal text tower learns from strings alone where stage A placed them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from gallery import Classroom, Gallery, rows_of, soft_entropy
from jaxtyping import Float, Int
from lesson_data import Lessons
from torch import Tensor, nn
from torch.nn import functional as F
from tower import TextTower, sentence_tokens

LONGEST_PROMPT, LONGEST_CAPTION = 24, 28


@dataclass(frozen=True)
class DistillSettings:
    """What stage B does; the defaults are those of the shipped model."""

    steps: int = 5000
    batch: int = 3072
    captions: int = 1024
    images: int = 2048
    lr: float = 2e-3
    weight_decay: float = 0.05
    cosine: float = 10.0
    classes: float = 0.5
    contrast: float = 0.1
    things: float = 0.2
    plain: float = 0.4
    seed: int = 0


@dataclass
class Writer:
    """Writes strings of the corpus into sentences, as tokens."""

    lessons: Lessons
    plain: float = DistillSettings.plain

    @cached_property
    def tokens(self) -> dict[str, Tensor]:
        """Tokens of names, captions and both sides of the templates."""
        kinds = ("names", "captions", "template.0", "template.1")
        return {kind: self.lessons.tokens(kind) for kind in kinds}

    def prompts(self, rows: Tensor) -> Int[Tensor, "n l"]:
        """Write strings into templates: the evaluation's, any of them, or none."""
        before, after = self.tokens["template.0"], self.tokens["template.1"]
        luck = torch.rand(len(rows), device=rows.device)
        chosen = rows_of(len(before), len(rows), rows.device).masked_fill(luck < self.plain, 0)
        bare = (luck > 0.9)[:, None]
        pieces = (
            before[chosen].masked_fill(bare, 0),
            self.tokens["names"][rows],
            after[chosen].masked_fill(bare, 0),
        )
        return sentence_tokens(*pieces, length=LONGEST_PROMPT)

    def captions(self, rows: Tensor) -> Int[Tensor, "n l"]:
        """Write captions as they are."""
        return sentence_tokens(self.tokens["captions"][rows], length=LONGEST_CAPTION)


@dataclass
class Drill:
    """Everything that stage B draws its batches from."""

    room: Classroom
    gallery: Gallery
    names: Float[Tensor, "n d"]
    captions: Float[Tensor, "m d"]
    settings: DistillSettings

    @cached_property
    def writer(self) -> Writer:
        """Writes what the tower reads."""
        return Writer(self.room.lessons, self.settings.plain)

    @cached_property
    def usual(self) -> Tensor:
        """Rows of the 1000 class names that people use."""
        return self.room.lessons.entries("classes").strings[:, 0].long()

    @cached_property
    def things(self) -> Tensor:
        """Rows of the names of everything in the gallery."""
        kinds = ("classes", "nodes", "tags")
        return torch.cat([self.room.lessons.entries(k).strings[:, 0].long() for k in kinds])

    def name_rows(self) -> Tensor:
        """Draw strings, some of them from the gallery."""
        count, device = self.settings.batch, self.names.device
        any_name = rows_of(len(self.names), count, device)
        hung = self.things[rows_of(len(self.things), count, device)]
        return torch.where(torch.rand(count, device=device) < self.settings.things, hung, any_name)


def name_losses(drill: Drill, tower: TextTower) -> tuple[Tensor, Tensor]:
    """Point strings where they were placed; match the head's posterior over the usual names."""
    rows = torch.cat([drill.name_rows(), drill.usual])
    found = tower(drill.writer.prompts(rows))
    distance = (1 - (found * drill.names[rows]).sum(dim=1))[: drill.settings.batch].mean()
    with torch.no_grad():
        images = drill.room.images(drill.settings.images)
        target, mass = drill.room.posterior(images)
        seen = drill.gallery.see(images)
    logits = tower.logit_scale.exp() * seen @ found[drill.settings.batch :].T
    return distance, soft_entropy(logits, target, mass)


def caption_losses(drill: Drill, tower: TextTower) -> tuple[Tensor, Tensor]:
    """Point captions where they were placed, and contrast them with their pictures."""
    room = drill.room
    rows = room.captions[rows_of(len(room.captions), drill.settings.captions, room.captions.device)]
    found = tower(drill.writer.captions(rows))
    distance = (1 - (found * drill.captions[rows]).sum(dim=1)).mean()
    with torch.no_grad():
        seen = drill.gallery.see(room.lessons.images["center"][rows])
    logits = drill.gallery.factors()[1].detach() * seen @ found.T
    same = torch.arange(len(rows), device=rows.device)
    return distance, (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2


def pace(done: float) -> float:
    """Return the share of the learning rate at a share of the steps: warm up, then cosine."""
    warm = 0.03
    return done / warm if done < warm else (1 + math.cos(math.pi * done)) / 2


def distill(drill: Drill) -> TextTower:
    """Run stage B."""
    settings = drill.settings
    torch.manual_seed(settings.seed)
    tower = TextTower().to(drill.names.device)
    groups = _parameter_groups(tower, settings)
    optimizer = torch.optim.AdamW(groups, lr=settings.lr, betas=(0.9, 0.98))
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: pace(step / settings.steps))
    for step in range(settings.steps):
        losses = _step(drill, tower, optimizer)
        plan.step()
        if step % 500 == 499:
            shown = " ".join(f"{name} {value.item():.3f}" for name, value in losses.items())
            print(f"distill {step + 1}: {shown}", flush=True)
    return tower.eval()


def _step(drill: Drill, tower: TextTower, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    settings = drill.settings
    with torch.autocast(drill.names.device.type, torch.bfloat16):
        distance, contrast = caption_losses(drill, tower)
        names, classes = name_losses(drill, tower)
    loss = settings.cosine * (names + 0.25 * distance)
    loss = loss + settings.classes * classes + settings.contrast * contrast
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
    optimizer.step()
    found = {"names": names, "captions": distance, "classes": classes, "contrast": contrast}
    return {name: value.detach() for name, value in found.items()}


def _parameter_groups(tower: TextTower, settings: DistillSettings) -> list[dict]:
    matrices = [p for p in tower.parameters() if p.ndim >= 2]
    rest = [p for p in tower.parameters() if p.ndim < 2]
    return [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
