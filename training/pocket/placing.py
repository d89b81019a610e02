"""Where nouns without pictures belong: kernel ridge regression from descriptions to the gallery.

Two things are alike when the sentence encoders say so of their names and of their meanings, and
when they share rare hypernyms. The regression learns from the things that hang in the gallery.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gallery import Classroom, Gallery
from jaxtyping import Float, Int
from lesson_data import NOTHING
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class PlacingSettings:
    """Weights of the kernel and of the examples; the defaults are those of the shipped model."""

    name: float = 0.3
    meaning: float = 0.7
    path: float = 0.4
    ridge: float = 0.15
    nodes: float = 0.5
    tags: float = 0.5
    reading: float = 0.0


@dataclass(frozen=True)
class Placer:
    """Solved regression: example features and their weights."""

    room: Classroom
    settings: PlacingSettings
    center: tuple[Tensor, Tensor]
    examples: Float[Tensor, "n f"]
    weights: Float[Tensor, "n d"]
    mean: Float[Tensor, " d"]

    def __call__(self, strings: Int[Tensor, " n"], meanings: Int[Tensor, " n"]) -> Tensor:
        """Place names with given meanings, as unit vectors."""
        rows = describe(self.room, self.settings, self.center, strings, meanings)
        return F.normalize(rows @ self.examples.T @ self.weights + self.mean, dim=-1)


def describe(
    room: Classroom,
    settings: PlacingSettings,
    center: tuple[Tensor, Tensor],
    strings: Tensor,
    meanings: Tensor,
) -> Float[Tensor, "n f"]:
    """Return features whose inner products are the kernel."""
    name = F.normalize(room.texts["names"][strings] - center[0], dim=-1)
    meaning = F.normalize(room.texts["meanings"][meanings] - center[1], dim=-1)
    paths = room.lessons.paths[meanings]
    surprise = room.lessons.tensors["hypernyms.surprise"].sqrt()
    path = torch.zeros(len(paths), len(surprise) + 1, device=paths.device)
    path.scatter_(1, paths.masked_fill(paths == NOTHING, len(surprise)), 1.0)
    path = F.normalize(path[:, :-1] * surprise, dim=-1)
    parts = ((name, settings.name), (meaning, settings.meaning), (path, settings.path))
    return torch.cat([part * weight**0.5 for part, weight in parts], dim=1)


@torch.inference_mode()
def fit_placer(room: Classroom, gallery: Gallery, settings: PlacingSettings) -> Placer:
    """Solve the regression on the things of the gallery that were taught."""
    classes, nodes, tags = (room.lessons.entries(kind) for kind in ("classes", "nodes", "tags"))
    known = ((room.lessons.leaves & room.taught).sum(dim=1) >= 2).nonzero().squeeze(1)
    free = untainted_tags(room)
    taught = room.taught.nonzero().squeeze(1)
    groups = [(classes, taught, 1.0), (nodes, known, settings.nodes), (tags, free, settings.tags)]
    strings = torch.cat([things.strings[rows, 0].long() for things, rows, _ in groups])
    meanings = torch.cat([things.meaning[rows].long() for things, rows, _ in groups])
    weight = torch.cat([torch.full((len(r),), w, device=r.device) for _, r, w in groups])
    kinds = zip(("classes", "nodes", "tags"), groups, strict=True)
    target = torch.cat([gallery.thing(kind)[rows] for kind, (_, rows, _) in kinds])
    mean = gallery.thing("classes")[taught].mean(dim=0)
    some = classes.strings[taught, 0].long(), classes.meaning[taught].long()
    center = room.texts["names"][some[0]].mean(0), room.texts["meanings"][some[1]].mean(0)
    examples = describe(room, settings, center, strings, meanings)
    kernel = examples @ examples.T + settings.ridge * (1 / weight.clamp_min(1e-6)).diag()
    weights = torch.linalg.solve(kernel.double(), (target - mean).double()).float()
    return Placer(room, settings, center, examples, weights, mean)


def untainted_tags(room: Classroom) -> Tensor:
    """Return the caption nouns that do not name a held-out class."""
    tags, classes = room.lessons.entries("tags"), room.lessons.entries("classes")
    hidden = ~room.taught
    by_meaning = torch.isin(tags.meaning, classes.meaning[hidden])
    by_name = torch.isin(tags.strings[:, 0], classes.strings[hidden])
    return (~(by_meaning | by_name)).nonzero().squeeze(1)


@torch.inference_mode()
def placed_names(room: Classroom, gallery: Gallery, placer: Placer) -> Float[Tensor, "n d"]:
    """Place every string: a mixture of its senses, likelier ones first.

    Senses count by rank and by how well they agree with what the reader makes of the bare name.
    """
    senses = room.lessons.tensors["names.senses"].long()
    bare = gallery.read(room.texts["names"])
    total = torch.zeros_like(bare)
    for rank in range(senses.shape[1]):
        there = (senses[:, rank] != NOTHING).nonzero().squeeze(1)
        for rows in there.split(8192):
            placed = placer(rows, senses[rows, rank])
            agreement = (placed * bare[rows]).sum(dim=1, keepdim=True)
            total[rows] += placed * (4 * agreement).exp() / (1 + rank)
    total = F.normalize(F.normalize(total, dim=-1) + placer.settings.reading * bare, dim=-1)
    return with_hung_things(room, gallery, total)


def with_hung_things(room: Classroom, gallery: Gallery, placed: Tensor) -> Tensor:
    """Move the names of things in the gallery to their own vectors: classes wholly, others half."""
    for kind, share in (("tags", 0.5), ("nodes", 0.5), ("classes", 1.0)):
        rows = room.lessons.entries(kind).strings[:, 0].long()
        placed[rows] = F.normalize((1 - share) * placed[rows] + share * gallery.thing(kind), dim=-1)
    return placed
