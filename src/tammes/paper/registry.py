"""The tables of the paper, one row of data each: what they hold, and so which runs they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tammes.datasets import CATALOG, TEMPLATES
from tammes.errors import UnknownName
from tammes.method import METHODS
from tammes.paper.published import PublishedCell, published
from tammes.paper.results import COCOOP, COOP, Need
from tammes.prompts import DEFAULT_TEMPLATE

VIT, RN50 = "ViT-B/16", "RN50"
DIMS: Mapping[str, int] = {VIT: 512, RN50: 1024}
WEIGHTS: Mapping[str, str] = {VIT: "ViT-B-16/openai", RN50: "RN50/openai"}

FINE = (
    "dtd", "flowers102", "food101", "sun397", "fgvc_aircraft", "oxford_pets", "caltech101",
    "ucf101", "eurosat", "stanford_cars",
)  # fmt: skip
SHIFTS = ("imagenet_a", "imagenet_v2", "imagenet_r", "imagenet_sketch")
ALL = ("imagenet", *FINE, *SHIFTS)
PUBLISHED = ("zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt")
COOL, EXAMPLE = "a photo of the cool {}.", "an example of {}."

Kind = Literal[
    "datasets", "groups", "weighted", "seeds", "prompts", "cost", "sizes", "dimensions", "elsewhere"
]


@dataclass(frozen=True)
class Table:
    """One table: its published parts, and the runs whose numbers stand beside them.

    `methods` are the published ones; with `others`, every further method of the command joins them.
    `kind` says how runs become cells.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    datasets: tuple[str, ...] = FINE
    backbones: tuple[str, ...] = (VIT, RN50)
    prompts: tuple[str, ...] = (DEFAULT_TEMPLATE,)
    methods: tuple[str, ...] = PUBLISHED
    metrics: tuple[str, ...] = ("Acc", "ECE")
    kind: Kind = "datasets"
    others: bool = True

    def chosen(self, methods: Iterable[str]) -> tuple[str, ...]:
        """List the methods to run: those of the command that belong here, zero-shot with them."""
        wanted = [m for m in methods if self.others or m in self.methods]
        compared = self.kind != "seeds" and "zero-shot" not in wanted
        first = ["zero-shot"] if wanted and compared else []
        return (*first, *wanted)

    def needs(self, methods: Iterable[str] = METHODS, repeats: int = 1) -> tuple[Need, ...]:
        """List the runs that fill the table."""
        if self.kind == "prompts":
            return tuple(dict.fromkeys(prompt_needs()))
        if self.kind in ("sizes", "dimensions", "elsewhere"):
            return ()
        again = range(repeats if self.kind == "seeds" else 1)
        return tuple(
            Need(dataset, method, prompt, backbone, repeat)
            for repeat in again
            for backbone in self.backbones
            for dataset in self.datasets
            for prompt in self.prompts
            for method in self.chosen(methods)
        )


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            "finegrained", "Fine-grained datasets", ("tab:finegrained",), ("imagenet", *FINE)
        ),
        Table("natural", "Natural distribution shifts", ("tab:natural",), SHIFTS),
        Table(
            "group", "More or fewer classes than dimensions", ("tab:group",), ALL, (VIT,),
            kind="groups",
        ),
        Table(
            "weighted", "Averages weighted by test size", ("tab:weighted",), ALL, kind="weighted"
        ),
        Table(
            "coop", "Starting from CoOp and CoCoOp", ("tab:CoOp",), FINE, (VIT,), (COOP, COCOOP)
        ),
        Table("sce", "Static calibration error", ("tab:sce",), metrics=("SCE",)),
        Table("cool", f"The prompt “{COOL}”", ("tab:cool",), prompts=(COOL,)),
        Table("example", f"The prompt “{EXAMPLE}”", ("tab:example",), prompts=(EXAMPLE,)),
        Table(
            "catpt", "C-TPT and A-TPT together", ("tab:catpt",), ("dtd", "flowers102", "ucf101"),
            (VIT,), methods=("c-tpt", "a-tpt", "c-tpt+a-tpt"), others=False,
        ),
        Table(
            "random", "Standard deviation over seeds", ("tab:random",),
            ("dtd", "flowers102", "food101", "caltech101", "stanford_cars"), (VIT,),
            methods=("c-tpt", "o-tpt", "a-tpt"), metrics=("std_Acc", "std_ECE"), kind="seeds",
            others=False,
        ),
        Table(
            "prompts", "Hand-crafted prompts: accuracy, ECE and angle",
            ("text:caltech101-rn50-prompts", "text:imagenet-vitb16-prompts"),
            ("caltech101", "imagenet"), metrics=("Acc", "ECE", "AD"), kind="prompts", others=False,
        ),
        Table(
            "computational", "Time, memory and complexity", ("tab:computational",),
            ("imagenet_v2",), (VIT,), methods=("c-tpt", "o-tpt", "a-tpt"), kind="cost",
            others=False,
        ),
        Table("datasets", "The datasets", ("tab:datasets",), ALL, kind="sizes"),
        Table("dimensions", "Embedding dimensions", ("tab:emb",), (), (), kind="dimensions"),
        Table(
            "medical", "Medical sets, on top of other methods", ("tab:fpt", "tab:ps", "tab:baple"),
            ("isic2018", "kather_colon", "covid"), (), (), (), kind="elsewhere",
        ),
    )
}  # fmt: skip


def find_table(name: str) -> Table:
    """Look a table up."""
    if name not in TABLES:
        raise UnknownName.of("table", name, TABLES)
    return TABLES[name]


# --- hand-crafted prompts -----------------------------------------------------------------------

HOMES = {"caltech101": RN50, "imagenet": VIT}  # where the paper tells of hand-crafted prompts


def sentence(prompt: str) -> str:
    """End a printed prompt with the period that the published codes put there."""
    return prompt if prompt.endswith(".") else f"{prompt}."


def prompt_needs() -> Iterator[Need]:
    """List the prompts that the text quotes, tuned or not, and CLIP's 80 for ImageNet."""
    for cell in published():
        if cell.table in TABLES["prompts"].sources:
            yield Need(cell.dataset, cell.key, sentence(cell.prompt), cell.backbone)
    for dataset, backbone in HOMES.items():
        for template in TEMPLATES["imagenet-80"]:
            yield Need(dataset, "zero-shot", template, backbone)


def need_of(cell: PublishedCell) -> Need | None:
    """Find the run behind a published number; None where several runs, or none, are behind it."""
    if cell.dataset not in CATALOG or cell.key not in METHODS:
        return None
    prompt = sentence(cell.prompt)
    if cell.table == "tab:CoOp":
        prompt = COCOOP if COCOOP in cell.method.casefold() else COOP
    return Need(cell.dataset, cell.key, prompt, home(cell))


def home(cell: PublishedCell) -> str:
    """Take the backbone of a published number without the remarks on it."""
    return cell.backbone.partition(" (")[0]
