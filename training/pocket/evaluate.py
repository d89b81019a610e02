"""Make the numbers of the model card: strict zero-shot on the image packs, with intervals."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize
from tqdm import tqdm

from tammes.backbones import load_backbone
from tammes.backbones.backbone import Backbone
from tammes.calibration import Outcomes
from tammes.datasets import Dataset, load_dataset
from tammes.datasets.catalog import find_entry
from tammes.images import open_image
from tammes.statistics import Interval, bootstrap
from tammes.views import ViewSettings, views_of

TEMPLATE = "a photo of a {}."
METRICS = ("accuracy", "mean_confidence", "ece")

# pack -> the catalog's class names; None: the pack's own
PACKS = {
    "caltech101-test-160": "caltech101",
    "pets-test-160": "oxford_pets",
    "flowers-test-160": "flowers102",
    "imagenet-val5k": "imagenet",
    "cifar10-test-2000": None,
}


def read(data: Path, pack: str) -> Dataset:
    """Open a pack under the class names of the benchmark."""
    known = PACKS[pack]
    return load_dataset(
        data / f"{pack}.zip", classnames=find_entry(known).classnames if known else None
    )


@torch.inference_mode()
def class_features(backbone: Backbone, dataset: Dataset) -> Tensor:
    """Encode the class names in the one template, as unit rows."""
    names = [name.replace("_", " ") for name in dataset.classnames]
    tokens = backbone.tokenize([TEMPLATE.format(name) for name in names])
    return normalize(backbone.encode_text(tokens, backbone.embed(tokens)), dim=-1)


@torch.inference_mode()
def image_features(backbone: Backbone, dataset: Dataset, size: int = 64) -> Tensor:
    """Encode every image as the model's own preprocessing shows it, as unit rows."""
    one = ViewSettings(count=1)
    rows = []
    for start in tqdm(range(0, len(dataset), size), desc=dataset.name, mininterval=5):
        items = dataset.items[start : start + size]
        pixels = [views_of(open_image(i.open()), i.id, one, backbone.preprocessing) for i in items]
        rows.append(normalize(backbone.encode_image(torch.cat(pixels)), dim=-1))
    return torch.cat(rows)


def measure(backbone: Backbone, dataset: Dataset) -> dict[str, Interval]:
    """Classify a dataset and measure it with 95 % bootstrap intervals."""
    logits = backbone.logits(image_features(backbone, dataset), class_features(backbone, dataset))
    probs = logits.float().softmax(dim=-1).numpy()
    return bootstrap(Outcomes.from_probs(probs, torch.tensor(dataset.labels).numpy()), METRICS)


def table_row(pack: str, count: int, found: dict[str, Interval]) -> str:
    """Write one line of the card's table, in percent."""
    cells = (
        f"{100 * i.value:.1f} [{100 * i.low:.1f}, {100 * i.high:.1f}]"
        for i in (found[name] for name in METRICS)
    )
    return f"| {pack} ({count}) | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/images"))
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--out", type=Path, default=Path(".work/pocket/card.json"))
    options = parser.parse_args()
    backbone = load_backbone(options.model, device="cpu")
    rows, record = [], {}
    for pack in PACKS:
        dataset = read(options.data, pack)
        found = measure(backbone, dataset)
        rows.append(table_row(pack, len(dataset), found))
        record[pack] = {name: asdict(interval) for name, interval in found.items()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print("| pack (images) | accuracy | mean confidence | ECE |\n|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
