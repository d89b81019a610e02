"""The demo: the main job on what the package holds, without any download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tammes.backbones import load_backbone
from tammes.datasets import Dataset, load_dataset
from tammes.evaluate import evaluate
from tammes.features import Progress
from tammes.method import select_methods
from tammes.prompts import Prompt
from tammes.records import Run
from tammes.report import write_html
from tammes.views import ViewSettings

PACK = "caltech101-demo.zip"
MODEL = "pocket"
METHODS = ("zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt", "static-a-tpt")
VIEWS, PUBLISHED = 32, 64  # per image: two cores answer within 90 seconds with so many
CREDIT = (
    "Images: Caltech 101 by F.-F. Li, M. Andreeto, M. Ranzato and P. Perona, CaltechDATA, "
    "doi:10.22002/D1.20086, CC BY 4.0; three test images per class, made smaller and encoded as "
    "WebP, a few class folders renamed."
)


@dataclass(frozen=True)
class Demo:
    """What the demo made: its runs, and the page that shows them."""

    runs: Sequence[Run]
    page: Path


def run_demo(
    out: str | Path = "demo",
    *,
    views: int = VIEWS,
    images: Dataset | None = None,
    command: str = "tammes demo",
    progress: Progress | None = None,
) -> Demo:
    """Run the published methods over the bundled `images`, or some of them; write `report.html`.

    Folders and files are those of `evaluate`: interrupted, the same call finishes the rest.
    """
    backbone, dataset = load_backbone(MODEL), bundled_images() if images is None else images
    runs = evaluate(
        dataset,
        backbone,
        Prompt.from_template(backbone, dataset.classnames),
        select_methods(METHODS),
        out,
        views=ViewSettings(views, augmix=True),  # as published for Caltech101
        progress=progress,
    )
    return Demo(runs, write_html(runs, Path(out) / "report.html", command, credit=_credit(views)))


def _credit(views: int) -> str:
    """Say whose images these are, and where the demo departs from the published settings."""
    if views == PUBLISHED:
        return CREDIT
    return (
        f"{views} views per image, where {PUBLISHED} are published: the demo is to end while you "
        f"watch (--views {PUBLISHED} takes them all). {CREDIT}"
    )


def bundled_images() -> Dataset:
    """Open the 300 images of Caltech101 that ship with the package."""
    return load_dataset(str(resources.files("tammes") / "assets" / "demo" / PACK))
