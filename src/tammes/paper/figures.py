"""The figures of the paper, one row of data each: what they show, the runs they need, who draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from matplotlib.figure import Figure as Canvas

from tammes.datasets import TEMPLATES, Dataset
from tammes.paper import drawing, gathering
from tammes.paper.gathering import Gather
from tammes.paper.registry import ALL, HOMES
from tammes.paper.results import Missing, Need

LAMBDAS = (-80.0, -40.0, -10.0, 0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
SWEPT = "a-tpt"
BESIDE = ("c-tpt", "o-tpt")  # at their published λ
SWEEPABLE = (
    "caltech101",
    *(name for name in ALL if name != "caltech101"),
)  # the first that is here

Find = Callable[[str], Dataset | Missing]
Ask = Callable[[tuple[str, ...], Find], Iterator[Need]]
Draw = Callable[[gathering.Picture, str], Canvas]


@dataclass(frozen=True)
class Figure:
    """One figure: the runs it asks for, how their numbers are gathered, and how they are drawn."""

    name: str
    title: str
    caption: str
    ask: Ask
    gather: Gather
    draw: Draw

    def needs(self, methods: tuple[str, ...], find: Find) -> tuple[Need, ...]:
        """List the runs behind the figure; `find` says which datasets are here."""
        return tuple(self.ask(methods, find))


def _every_run(methods: tuple[str, ...], find: Find) -> Iterator[Need]:
    """Ask for all methods on all datasets, zero-shot with them."""
    chosen = dict.fromkeys(("zero-shot", *methods))
    yield from (Need(dataset, method) for dataset in ALL for method in chosen)


def _sweep(methods: tuple[str, ...], find: Find) -> Iterator[Need]:
    """Ask for A-TPT at every λ on one dataset, the published methods beside it."""
    here = (name for name in SWEEPABLE if not isinstance(find(name), Missing))
    blank = Need(next(here, SWEEPABLE[0]))
    if SWEPT in methods:
        yield blank
        yield from (replace(blank, method=name) for name in BESIDE if name in methods)
        yield from (replace(blank, method=SWEPT, weight=weight) for weight in LAMBDAS)


def _prompts(methods: tuple[str, ...], find: Find) -> Iterator[Need]:
    for dataset, backbone in HOMES.items():
        for template in TEMPLATES["imagenet-80"]:
            yield Need(dataset, "zero-shot", template, backbone)


def _nothing(methods: tuple[str, ...], find: Find) -> Iterator[Need]:
    yield from ()


FIGURES: Mapping[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "radar", "Accuracy and ECE on all datasets",
            "One spoke per dataset, from 0 to the value at its end. Accuracy: outside is better; "
            "ECE: inside is better.",
            _every_run, gathering.around_datasets, drawing.draw_radars,
        ),
        Figure(
            "bars", "Accuracy and ECE on each dataset",
            "Lines are 95 % intervals. Diamonds are published values, of the backbone that is "
            "named.",
            _every_run, gathering.over_datasets, drawing.draw_bars,
        ),
        Figure(
            "reliability", "Reliability diagrams",
            "Accuracy per bin of confidence; in color, what was claimed too much or too little. "
            "Bars of few images are pale.",
            _every_run, gathering.bins_of_datasets, drawing.draw_reliability,
        ),
        Figure(
            "confidence", "Confidence histograms",
            "How many images claim which confidence, with the mean claim and the accuracy.",
            _every_run, gathering.bins_of_datasets, drawing.draw_confidence,
        ),
        Figure(
            "cosine", "Cosine between classes",
            "The mean cosine between classes after tuning on each image, and its distribution. A "
            "method that answers alike for every image is a line.",
            _every_run, gathering.cosines_of_datasets, drawing.draw_cosines,
        ),
        Figure(
            "tsne", "Class features under the prompts that the text quotes",
            "t-SNE of all prompts together, one point per class; AD is the mean angle, in radians, "
            "from a class to its nearest. No image is needed.",
            _nothing, gathering.prompts_in_a_plane, drawing.draw_classes,
        ),
        Figure(
            "gradient", "Gradient norm of the terms against the angle",
            "Classes are drawn towards their centroid. Norms are of the part of the gradient that "
            "is tangent to the sphere: all that can move a class. A circle is where a norm falls "
            "to 0, as A-TPT's does at its clamp. No image is needed.",
            _nothing, gathering.gradients_of_terms, drawing.draw_gradients,
        ),
        Figure(
            "pareto", "Accuracy against ECE over λ",
            "A-TPT at each λ, below 0 with the sign of the released script, on one dataset; "
            "other methods at their published λ. The frontier is that of all weights, and leaves "
            "out zero-shot, which has none.",
            _sweep, gathering.over_weights, drawing.draw_tradeoff,
        ),
        Figure(
            "prompt-scatter", "Angle and ECE of CLIP's 80 prompts",
            "One color per group of prompts of equal accuracy, with its trend; prompts without "
            f"{gathering.LEAST - 1} equals are left out. No tuning.",
            _prompts, gathering.prompts_in_groups, drawing.draw_prompts,
        ),
    )
}  # fmt: skip
