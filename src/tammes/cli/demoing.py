"""`tammes demo`: the main job on what ships with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from tammes.cli import options
from tammes.cli.console import as_typed, say

Out = Annotated[Path, Option("--out", "-o", help="Folder of the runs and of report.html.")]
Limit = Annotated[int | None, Option(help="Take so many images, spread over the classes.", min=1)]


def demo(out: Out = Path("demo"), views: options.Views = 32, limit: Limit = None) -> None:
    """Compare the methods on 300 bundled images, and write a report for the browser.

    Takes a minute or two on two cores and needs no download: model and images are in the package.
    With --views 64, as published, it takes half as long again.
    """
    from tammes.cli.reporting import show
    from tammes.demo import CREDIT, METHODS, bundled_images, run_demo
    from tammes.progress import Bar

    images = bundled_images()
    images = images if limit is None else images.subset(limit)
    say(
        f"{len(images)} images of {len(images.classnames)} classes (Caltech101), {views} views, "
        f"the pocket model: {', '.join(METHODS)}"
    )
    with Bar() as bar:
        found = run_demo(out, views=views, images=images, command=as_typed(), progress=bar)
    show(found.runs)
    say(CREDIT)
    say(f"wrote {found.page}: open it in a browser")
