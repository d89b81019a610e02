"""Options that several commands share: what they are called and what their help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import BadParameter, Option

TEMPLATE = "a photo of a {}."
PRESET = "fine-grained"
METHOD, MODEL, VIEWS, WORK, OUTPUT = "Method", "Model", "Views", "Work", "Output"

Classes = Annotated[str | None, Option(help="Class names, separated by commas.")]
ClassesFile = Annotated[
    Path | None, Option(help="File with one class name per line, or a JSON list of names.")
]
Template = Annotated[
    str,
    Option(
        "--template",
        "-t",
        help="Sentence with {} for the class name, a name of `tammes list templates`, "
        "coop:FILE or cocoop:FILE, as `tammes train` and the published codes write them.",
        rich_help_panel=METHOD,
    ),
]
Terms = Annotated[
    list[str] | None,
    Option(
        "--term",
        help="Build a method of your own: entropy plus this term, as 'angular(tau=0.999):40'. "
        "Several are added up. Terms: angular, dispersion, orthogonality, frobenius.",
        rich_help_panel=METHOD,
    ),
]
Preset = Annotated[
    str,
    Option(
        help="Weights of the terms: fine-grained, or shift for ImageNet's variants.",
        rich_help_panel=METHOD,
    ),
]
Temperature = Annotated[
    float, Option(help="Divide the logits by this after tuning.", rich_help_panel=METHOD)
]
Model = Annotated[
    str,
    Option(
        "--model",
        "-m",
        help="pocket, a name of `tammes list models`, a checkpoint or a model folder.",
        rich_help_panel=MODEL,
    ),
]
Device = Annotated[
    str | None,
    Option(
        help="cpu, cuda, cuda:1, mps, … By default CUDA, else Apple's mps, else the CPU.",
        rich_help_panel=MODEL,
    ),
]
Precision = Annotated[
    str | None,
    Option(help="fp32, fp16 or bf16. By default fp16 on CUDA, else fp32.", rich_help_panel=MODEL),
]
Views = Annotated[
    int, Option(help="Views per image, the clean one included.", min=1, rich_help_panel=VIEWS)
]
AugMix = Annotated[
    bool | None, Option("--augmix/--no-augmix", help="Mix the views.", rich_help_panel=VIEWS)
]
Seed = Annotated[int, Option(help="Seed of the random views.", rich_help_panel=VIEWS)]


def read_batch(text: str) -> int | str:
    """Read a number of views above 0, or auto."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise BadParameter(f"{text!r} is neither a number of views above 0 nor auto")
    return int(text)


Batch = Annotated[
    Any,  # an integer, "auto" or None
    Option(
        help="Views per pass of the image encoder; auto tries which is the fastest. By default "
        "16, on CUDA 512.",
        parser=read_batch,
        metavar="INTEGER|auto",
        rich_help_panel=WORK,
    ),
]
Workers = Annotated[
    int | None,
    Option(
        help="Threads that decode and render images, and on a CPU encode them. By default one per "
        "core, up to 16; on a GPU up to 8.",
        min=1,
        rich_help_panel=WORK,
    ),
]
AsJson = Annotated[bool, Option("--json", help="Write JSON.", rich_help_panel=OUTPUT)]
