"""Stage A: hang every class, hypernym and caption noun in one space with the pictures.

The image projection and one free vector per thing are learned from the image teacher's posterior
and from captions; a reader learns where whole sentences belong. Names come in only afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from lesson_data import NOTHING, Lessons
from torch import Tensor, nn
from torch.nn import functional as F

DIM = 256


@dataclass(frozen=True)
class GallerySettings:
    """What stage A does; the defaults are those of the shipped model."""

    steps: int = 3000
    batch: int = 4096
    lr: float = 3e-3
    weight_decay: float = 0.1
    captions: float = 0.2
    tags: float = 0.5
    nodes: float = 0.5
    imagined: float = 0.3
    dropout: float = 0.3
    noise: float = 0.3
    seed: int = 0


class Gallery(nn.Module):
    """The image projection, the vectors of things, and the reader of sentences."""

    def __init__(self, sizes: dict[str, int], features: int, words: int, dropout: float) -> None:
        super().__init__()
        self.image = nn.Linear(features, DIM)
        self.things = nn.ParameterDict(
            {kind: nn.Parameter(torch.randn(count, DIM) * 0.05) for kind, count in sizes.items()}
        )
        self.line = nn.Linear(words, DIM)
        self.bend = nn.Sequential(
            nn.Dropout(dropout / 2),
            nn.Linear(words, 1024),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(1024, DIM),
        )
        self.scale = nn.Parameter(torch.full((2,), math.log(20.0)))

    def see(self, images: Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Return unit features of images."""
        return F.normalize(self.image(images), dim=-1)

    def read(self, sentences: Float[Tensor, "n f"]) -> Float[Tensor, "n d"]:
        """Return unit features of sentences."""
        return F.normalize(self.line(sentences) + self.bend(sentences), dim=-1)

    def thing(self, kind: str) -> Float[Tensor, "n d"]:
        """Return the unit vectors of a kind of thing."""
        return F.normalize(self.things[kind], dim=-1)

    def factors(self) -> Float[Tensor, 2]:
        """Return the scales for things and for captions."""
        return self.scale.clamp(max=math.log(100.0)).exp()


@dataclass
class Classroom:
    """The lessons, the sentence features, and the classes that may be taught."""

    lessons: Lessons
    texts: dict[str, Tensor]
    taught: Bool[Tensor, " c"]
    captions: Tensor
    settings: GallerySettings
    imagination: Float[Tensor, "c f"] = field(init=False)
    sources: list[Tensor] = field(init=False)
    cuts: list[tuple[Tensor, Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        pool = self.lessons.images
        self.sources = [
            pool["center"][self.captions],
            pool["small"][self.captions],
            pool["tiny"][self.lessons.tensors["tiny.train"]],
        ]
        self.imagination = imagined_means(self.lessons)
        self.cuts = list(random_cuts(self.lessons.leaves & self.taught, 200, self.settings.seed))

    def images(self, count: int) -> Float[Tensor, "n f"]:
        """Draw real images and imagined ones, and mix half of them in pairs."""
        drawn = torch.cat([s[rows_of(len(s), count // 3, s.device)] for s in self.sources])
        means = self.imagination[rows_of(len(self.imagination), len(drawn), drawn.device)]
        dream, share, mixed = torch.rand(3, len(drawn), 1, device=drawn.device)
        strength = (dream < self.settings.imagined) * (0.5 + dream / self.settings.imagined)
        drawn = torch.where(strength > 0, drawn * share, drawn) + strength * means
        share = torch.where(mixed < 0.5, torch.rand_like(share), 1.0)
        return share * drawn + (1 - share) * drawn.roll(1, dims=0)

    def posterior(self, images: Float[Tensor, "n f"]) -> tuple[Tensor, Tensor]:
        """Return the head's posterior over the taught classes, and the mass that they have."""
        weight, bias = self.lessons.head
        found = (images @ weight.T + bias).softmax(dim=1) * self.taught
        mass = found.sum(dim=1, keepdim=True)
        return found / mass.clamp_min(1e-6), mass.squeeze(1)

    def tags_of(self, rows: Tensor) -> Float[Tensor, "n t"]:
        """Spread one over the nouns of each caption; nothing where it has none."""
        count = len(self.lessons.entries("tags"))
        found = self.lessons.tensors["captions.tags"][rows].long()
        wanted = torch.zeros(len(rows), count + 1, device=rows.device)
        wanted.scatter_(1, found.masked_fill(found == NOTHING, count), 1.0)
        wanted = wanted[:, :-1]
        return wanted / wanted.sum(dim=1, keepdim=True).clamp_min(1)


def rows_of(size: int, count: int, device: torch.device) -> Tensor:
    """Draw row numbers."""
    return torch.randint(size, (count,), device=device)


def imagined_means(lessons: Lessons) -> Float[Tensor, "c f"]:
    """Estimate every class's mean feature from the head, as linear discriminants imply it."""
    weight, bias = lessons.head
    rows = torch.cat(list(lessons.images.values()))
    means = (weight - weight.mean(dim=0)) @ rows.T.cov()
    # the smallest strength at which the head is sure of most of them
    for strength in torch.linspace(0.1, 3, 30).tolist():
        logits = strength * means @ weight.T + bias
        if logits.softmax(dim=1).diagonal().median() > 0.8:
            break
    return strength * means


def random_cuts(
    leaves: Bool[Tensor, "h c"], count: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random sets of disjoint hypernym nodes: their rows, and the classes left over."""
    rng = torch.Generator().manual_seed(seed)
    below = leaves.cpu()
    for _ in range(count):
        share = 0.05 + 0.4 * torch.rand((), generator=rng)
        order = torch.randperm(len(below), generator=rng)[: int(share * len(below))]
        free = torch.ones(below.shape[1], dtype=torch.bool)
        chosen = []
        for node in order.tolist():
            group = below[node]
            if group.sum() >= 2 and bool(free[group].all()):
                free &= ~group
                chosen.append(node)
        yield torch.tensor(chosen).to(leaves.device), free.to(leaves.device)


def soft_entropy(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean cross-entropy to soft targets."""
    loss = -(target * logits.float().log_softmax(dim=1)).sum(dim=1)
    return (loss * weight).sum() / weight.sum()


def class_loss(room: Classroom, gallery: Gallery, step: int) -> Tensor:
    """Match the head's posterior over the classes, and over a random cut of their hypernyms."""
    images = room.images(room.settings.batch)
    target, mass = room.posterior(images)
    seen = gallery.see(images) * gallery.factors()[0]
    untaught = (~room.taught).float() * -1e4
    logits = seen @ gallery.thing("classes").T
    loss = soft_entropy(logits + untaught, target, mass)
    nodes, free = room.cuts[step % len(room.cuts)]
    # classes under a chosen node give their mass to it
    covered = (~(free & room.taught)).float() * -1e4
    cut = torch.cat([logits + covered, seen @ gallery.thing("nodes")[nodes].T], dim=1)
    wanted = torch.cat([target * free, target @ room.lessons.leaves[nodes].float().T], dim=1)
    return loss + room.settings.nodes * soft_entropy(cut, wanted, mass)


def caption_loss(room: Classroom, gallery: Gallery) -> Tensor:
    """Contrast pictures with captions; share each picture between its nouns and its classes."""
    rows = room.captions[rows_of(len(room.captions), room.settings.batch, room.captions.device)]
    images = room.lessons.images["center"][rows]
    seen, words = gallery.see(images), room.texts["captions"][rows]
    read = gallery.read(words + room.settings.noise * torch.randn_like(words))
    things, captions = gallery.factors()
    logits = captions * seen @ read.T
    same = torch.arange(len(rows), device=rows.device)
    contrast = (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2
    tags, (target, mass) = room.tags_of(rows), room.posterior(images)
    vectors = torch.cat([gallery.thing("tags"), gallery.thing("classes")])
    wanted = torch.cat([tags, target * mass[:, None]], dim=1)
    total = wanted.sum(dim=1)
    hidden = F.pad((~room.taught).float(), (tags.shape[1], 0)) * -1e4
    joint = things * seen @ vectors.T + hidden
    named = soft_entropy(joint, wanted / total.clamp_min(1e-6)[:, None], total)
    return room.settings.captions * contrast + room.settings.tags * named


def hang(room: Classroom) -> Gallery:
    """Run stage A."""
    settings, lessons = room.settings, room.lessons
    torch.manual_seed(settings.seed)
    sizes = {kind: len(lessons.entries(kind)) for kind in ("classes", "nodes", "tags")}
    features, words = lessons.head[0].shape[1], room.texts["captions"].shape[1]
    gallery = Gallery(sizes, features, words, settings.dropout).to(room.captions.device)
    optimizer = torch.optim.AdamW(
        gallery.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    plan = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.lr, settings.steps, pct_start=0.05
    )
    for step in range(settings.steps):
        with torch.autocast(room.captions.device.type, torch.bfloat16):
            loss = class_loss(room, gallery, step) + caption_loss(room, gallery)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        plan.step()
    return gallery.eval()
