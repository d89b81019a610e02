"""Train a context on stored features.

The published loops encode new random crops of every image in every epoch. The image encoder is
frozen, so here a number of crops per image is encoded once and the epochs take them in turn: with
as many crops as epochs that is the published distribution, with fewer the crops repeat. What is
left of a step is the text encoder, for one context (CoOp) or for one per image (CoCoOp).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from tammes.backbones import Backbone
from tammes.datasets import Dataset
from tammes.encoder import Batch
from tammes.engine import Engine
from tammes.engine.text import text_encoder
from tammes.errors import TammesError
from tammes.features import Progress
from tammes.method import METHODS
from tammes.prompts import Prompt
from tammes.training.checkpoint import read_state, unfinished, write_state
from tammes.training.examples import Examples, encode_examples, fewer_than, pick_shots
from tammes.training.learner import new_learner, start_prompt
from tammes.training.recipe import COCOOP, COOP, MOMENTUM, WEIGHT_DECAY, Recipe, random_stream

TOGETHER = 256  # images per pass of a measurement


class Fit(NamedTuple):
    """How well a prompt fits the images it learns from: mean cross-entropy, share correct."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Training:
    """A trained prompt, the file that holds it, and what training it was like.

    `before` and `after` are measured on the clean views of the `images`, `history` on each epoch's
    crops while they were learned from. `short` counts the images of classes that had fewer than the
    recipe asks for, `skipped` says which images could not be read and why.
    """

    path: Path
    prompt: Prompt
    images: int
    before: Fit
    after: Fit
    history: tuple[Fit, ...]
    short: Mapping[str, int]
    skipped: Mapping[str, str]


def train_coop(dataset: Dataset, backbone: Backbone, out: str | Path, **settings: Any) -> Training:
    """Train a context for all images (CoOp); `settings` change `COOP`, as in `shots=8, seed=1`."""
    return train(dataset, backbone, out, replace(COOP, **settings))


def train_cocoop(
    dataset: Dataset, backbone: Backbone, out: str | Path, **settings: Any
) -> Training:
    """Train a context that moves with each image (CoCoOp); `settings` change `COCOOP`."""
    return train(dataset, backbone, out, replace(COCOOP, **settings))


def train(
    dataset: Dataset,
    backbone: Backbone,
    out: str | Path,
    recipe: Recipe = COOP,
    *,
    batch: Batch = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Training:
    """Train a context on a few images of each class and write it to the file `out`.

    View features are kept in `features` beside the file, and the state of every epoch until the
    last: interrupted at any instant, the same call finishes the rest. Finished, it trains nothing.
    """
    path, few = Path(out), pick_shots(dataset, recipe.shots, recipe.seed)
    settings = {**asdict(recipe), "weights": backbone.fingerprint}
    settings |= {"images": few.fingerprint, "classes": few.task}
    state = read_state(path, settings) or read_state(unfinished(path), settings)
    start = start_prompt(backbone, few.classnames, recipe, f"{recipe.kind}:{path}")
    examples = encode_examples(
        few, backbone, recipe, path.parent / "features",
        batch=batch, workers=workers, progress=progress,
    )  # fmt: skip
    trainer = Trainer(backbone, start, examples, recipe)
    before = trainer.measure()
    trainer.restore(state)
    _run(trainer, path, settings, progress)
    short = fewer_than(recipe.shots, examples, few.classnames)
    return Training(
        path, trainer.prompt(), len(examples), before, trainer.measure(), tuple(trainer.history),
        short, examples.skipped,
    )  # fmt: skip


def _run(
    trainer: Trainer, path: Path, settings: Mapping[str, Any], progress: Progress | None
) -> None:
    """Run the epochs that are left; the file gets its name with the last."""
    while not trainer.finished:
        trainer.run_epoch(progress)
        write_state(unfinished(path), {**trainer.state(), "settings": settings})
    if not path.exists():
        unfinished(path).replace(path)


class Trainer:
    """SGD on the context of one prompt, with CoOp's schedule."""

    def __init__(
        self, backbone: Backbone, start: Prompt, examples: Examples, recipe: Recipe
    ) -> None:
        self._backbone, self._start = backbone, start
        self._examples, self._recipe = examples, recipe
        self._encode = text_encoder(backbone, start)
        self._learner = new_learner(backbone, start, recipe)
        self._optimizer = torch.optim.SGD(
            self._learner.parameters(), recipe.lr, MOMENTUM, weight_decay=WEIGHT_DECAY
        )
        self.history: list[Fit] = []

    @property
    def epoch(self) -> int:
        """Count the finished epochs."""
        return len(self.history)

    @property
    def finished(self) -> bool:
        """Whether no epoch is left."""
        return self.epoch >= self._recipe.epochs

    def prompt(self) -> Prompt:
        """Give the prompt as it is learned so far."""
        return self._learner.prompt(self._start)

    def state(self) -> dict[str, Any]:
        """Give all that the rest of the training depends on, in the layout of CoOp's files."""
        weights = {k: v.detach().cpu().clone() for k, v in self._learner.state_dict().items()}
        return {
            "state_dict": weights,
            "epoch": self.epoch,
            "optimizer": self._optimizer.state_dict(),
            "history": [tuple(fit) for fit in self.history],
        }

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Go on from a state, if there is one."""
        if state is not None:
            self._learner.load_state_dict(state["state_dict"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.history = [Fit(*fit) for fit in state["history"]]

    def run_epoch(self, progress: Progress | None = None) -> None:
        """Learn once from a crop of every image; as published, an incomplete step is left out."""
        recipe, images = self._recipe, len(self._examples)
        self._optimizer.param_groups[0]["lr"] = recipe.rate(self.epoch)
        order = torch.randperm(images, generator=random_stream("order", recipe.seed, self.epoch))
        steps = [s for s in order.split(recipe.per_step) if len(s) == min(recipe.per_step, images)]
        done, loss, correct = 0, 0.0, 0
        for rows in steps:
            one, right = self._step(rows)
            done, loss, correct = done + len(rows), loss + one * len(rows), correct + right
            if progress is not None:
                progress(self.epoch * images + done, recipe.epochs * images, "train")
        self.history.append(Fit(loss / done, correct / done))

    def _step(self, rows: Int[Tensor, " b"]) -> tuple[float, int]:
        """Take one step; give the loss before it, and how many images were right."""
        device = self._backbone.device
        features = self._examples.crops(rows, self.epoch).to(device)
        labels = self._examples.labels[rows].to(device)
        text = self._encode(self._learner(features))
        logits = self._backbone.logits(features[:, None], text)[:, 0]
        loss = cross_entropy(logits, labels)
        if not math.isfinite(loss.item()):
            raise TammesError(
                f"the loss is {loss.item()} in epoch {self.epoch + 1}: take a lower learning rate "
                f"than {self._recipe.lr}, or --precision fp32"
            )
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return loss.item(), int((logits.argmax(dim=-1) == labels).sum())

    def measure(self) -> Fit:
        """Measure the prompt, as it is learned so far, on the clean views."""
        engine, examples = Engine(self._backbone, self.prompt()), self._examples
        clean = examples.features[:, :1].split(TOGETHER)
        answers = [engine.predict(part.float(), [METHODS["zero-shot"]])[0].logits for part in clean]
        logits = torch.cat(answers).cpu()
        correct = (logits.argmax(dim=-1) == examples.labels).float().mean()
        return Fit(cross_entropy(logits, examples.labels).item(), correct.item())
