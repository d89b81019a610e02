"""Train the pocket model from packed lessons: stage A (hang, place) and stage B (distill)."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from distill import DistillSettings, Drill, distill
from examine import HELD_OUT_CAPTIONS, captions_but, examine, hold_out
from gallery import Classroom, Gallery, GallerySettings, hang
from lesson_data import Lessons, load_texts
from placing import PlacingSettings, fit_placer, placed_names
from quantized import quantize_matrices
from safetensors.torch import save_file
from sentences import sentence_tables
from torch import Tensor
from tower import TextTower

HELD_OUT_CLASSES = 100
SPLITS = 3

# what the study compares: one field at a time against the defaults
STUDY = {
    "ridge": (0.05, 0.15, 0.4),
    "path": (0.0, 0.4, 1.0),
    "name": (0.0, 0.3, 0.7),
    "tags": (0.0, 0.2, 0.5, 1.0),
    "nodes": (0.0, 0.5, 1.0),
    "reading": (0.0, 0.2, 0.5),
}


def study(lessons: Lessons, texts: dict[str, Tensor], settings: GallerySettings) -> list[dict]:
    """Compare ways of placing names on classes whose names are held out, over several splits."""
    found = []
    for split in range(SPLITS):
        taught = hold_out(lessons, HELD_OUT_CLASSES, split)
        captions = captions_but(lessons, HELD_OUT_CAPTIONS)
        room = Classroom(lessons, texts, taught, captions, replace(settings, seed=split))
        gallery = hang(room)
        for field, values in STUDY.items():
            for value in values:
                placing = replace(PlacingSettings(), **{field: value})
                row = examine(room, gallery, fit_placer(room, gallery, placing))
                found.append({"field": field, "value": value, "split": split} | row)
    return found


def summary(rows: list[dict]) -> str:
    """Write the study's means as lines."""
    lines = []
    key = lambda row: (row["field"], row["value"])  # noqa: E731
    for (field, value), group in itertools.groupby(sorted(rows, key=key), key):
        same = list(group)
        names = [n for n in same[0] if n not in {"field", "value", "split"}]
        means = {name: round(sum(r[name] for r in same) / len(same), 1) for name in names}
        lines.append(f"study {field}={value}: {means}")
    return "\n".join(lines)


def image_projection(lessons: Lessons, gallery: Gallery) -> dict[str, Tensor]:
    """Write the image projection for the trunk's own 1280 features."""
    basis, mean = lessons.tensors["images.basis"], lessons.tensors["images.mean"]
    weight = gallery.image.weight.detach() @ basis.T
    bias = gallery.image.bias.detach() - weight @ mean
    return {"visual.head.proj.weight": weight, "visual.head.proj.bias": bias}


def save_model(tower: TextTower, image: dict[str, Tensor], out: Path) -> None:
    """Save the token table as int8 and the rest as fp16, in two files."""
    joint = tower.state_dict() | image
    weights = {name: w.detach().cpu().contiguous() for name, w in joint.items()}
    tokens = {name: w for name, w in weights.items() if name.startswith("token_embedding")}
    rest = {name: w for name, w in weights.items() if name not in tokens}
    out.mkdir(parents=True, exist_ok=True)
    save_file(quantize_matrices(tokens), out / "tokens.safetensors")
    save_file(quantize_matrices(rest, frozenset()), out / "rest.safetensors")


def sentences_once(carry: Path, device: str) -> dict[str, Tensor]:
    """Embed the texts, or read what an earlier run embedded."""
    kept = carry / "sentences.pt"
    if not kept.exists():
        tables = sentence_tables(carry / "encoders", load_texts(carry / "lessons"), device)
        torch.save(tables, kept)
    return torch.load(kept, map_location=device, weights_only=True)


def train(lessons: Lessons, texts: dict[str, Tensor], steps: int, out: Path) -> dict:
    """Run both stages on everything and save the model."""
    everything = torch.ones_like(lessons.head[1], dtype=torch.bool)
    settings, placing = GallerySettings(), PlacingSettings()
    room = Classroom(lessons, texts, everything, captions_but(lessons, 0), settings)
    clock = Clock()
    gallery = hang(room)
    clock.say("hang")
    placer = fit_placer(room, gallery, placing)
    names = placed_names(room, gallery, placer)
    with torch.inference_mode():
        captions = gallery.read(texts["captions"])
    clock.say("place")
    drilled = DistillSettings(steps=steps)
    tower = distill(Drill(room, gallery, names.clone(), captions.clone(), drilled))
    clock.say("distill")
    save_model(tower, image_projection(lessons, gallery), out / "model")
    for half, rows in enumerate(names.chunk(2)):  # to look at later; small files travel better
        save_file(quantize_matrices({"names": rows.cpu()}), out / f"names-{half}.safetensors")
    settled = {"hang": asdict(settings), "place": asdict(placing), "distill": asdict(drilled)}
    return settled | {"seconds": clock.said}


class Clock:
    """Says how long each stage took."""

    def __init__(self) -> None:
        self.last, self.said = time.monotonic(), {}

    def say(self, stage: str) -> None:
        """Print and keep the seconds since the last stage."""
        now = time.monotonic()
        self.said[stage] = round(now - self.last, 1)
        print(f"{stage}: {self.said[stage]} s", flush=True)
        self.last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sentences", "study", "train"])
    parser.add_argument("--carry", type=Path, default=Path(".carry/pocket"))
    parser.add_argument("--out", type=Path, default=Path(".work/pocket/trained"))
    parser.add_argument("--steps", type=int, default=DistillSettings.steps)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    options.out.mkdir(parents=True, exist_ok=True)
    texts = sentences_once(options.carry, device)
    if options.what == "sentences":
        return
    lessons = Lessons.load(options.carry / "lessons", device)
    if options.what == "study":
        rows = study(lessons, texts, GallerySettings())
        (options.out / "study.json").write_text(json.dumps(rows, indent=1))
        print(summary(rows), flush=True)
    else:
        record = train(lessons, texts, options.steps, options.out)
        (options.out / "training.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
