"""Development signals: held-out class names on Tiny-ImageNet, held-out captions. No test set."""

from __future__ import annotations

import torch
from gallery import Classroom, Gallery
from jaxtyping import Bool, Float
from lesson_data import Lessons
from placing import Placer
from torch import Tensor
from torch.nn import functional as F

HELD_OUT_CAPTIONS = 1000


def hold_out(lessons: Lessons, count: int, seed: int = 0) -> Bool[Tensor, " c"]:
    """Choose the classes to teach: all but `count` of those that Tiny-ImageNet shows."""
    weight, _ = lessons.head
    taught = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    shown = lessons.tensors["tiny.label"].unique()
    order = torch.randperm(len(shown), generator=torch.Generator().manual_seed(seed))
    taught[shown[order[:count].to(weight.device)]] = False
    return taught


def captions_but(lessons: Lessons, held_out: int) -> Tensor:
    """Return the rows of all captions but the first ones."""
    rows = torch.arange(held_out, len(lessons.tensors["captions.tags"]))
    return rows.to(lessons.head[0].device)


def hit_rate(logits: Float[Tensor, "n c"], classes: Tensor, labels: Tensor) -> float:
    """Share of images whose best class is theirs, in percent."""
    return 100 * (classes[logits.argmax(dim=1)] == labels).float().mean().item()


@torch.inference_mode()
def examine(room: Classroom, gallery: Gallery, placer: Placer) -> dict[str, float]:
    """Classify Tiny-ImageNet among held-out names alone, and among held-out and taught names."""
    lessons, labels = room.lessons, room.lessons.tensors["tiny.label"]
    seen = gallery.see(lessons.images["tiny"])
    kinds = lessons.entries("classes")
    names, read = gallery.thing("classes").clone(), room.texts["names"][kinds.strings[:, 0].long()]
    hidden = (~room.taught).nonzero().squeeze(1)
    fresh = placer(kinds.strings[hidden, 0].long(), kinds.meaning[hidden].long())
    fresh = fresh + placer.settings.reading * gallery.read(read[hidden])
    names[hidden] = F.normalize(fresh, dim=-1)
    shown, ours = labels.unique(), ~room.taught[labels]
    alone = hit_rate(seen[ours] @ names[hidden].T, hidden, labels[ours])
    new = hit_rate(seen[ours] @ names[shown].T, shown, labels[ours])
    old = hit_rate(seen[~ours] @ names[shown].T, shown, labels[~ours])
    images = gallery.see(lessons.images["center"][:HELD_OUT_CAPTIONS])
    captions = gallery.read(room.texts["captions"][:HELD_OUT_CAPTIONS])
    own = torch.arange(len(images), device=images.device)
    return {
        "alone": alone,
        "new": new,
        "old": old,
        "balance": 2 * new * old / (new + old),
        "captions": hit_rate(images @ captions.T, own, own),
    }
