"""Class names in, calibrated probabilities out: scikit-learn's conventions around the engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tammes.backbones import Backbone, load_backbone
from tammes.encoder import Batch, ImageEncoder
from tammes.engine import Engine
from tammes.errors import DataError, ImageError, PromptError, TammesError, UnknownName
from tammes.images import Source, content_id
from tammes.method import Method, select_methods
from tammes.progress import track
from tammes.prompts import DEFAULT_TEMPLATE, build_prompt, clean_classnames
from tammes.views import ViewSettings

TOGETHER = 32  # images that share one pass of the engine


@dataclass(frozen=True, eq=False)
class Answer:
    """What the classifier says about one image; NaN, and an `error`, where it cannot be read.

    `angle` is the mean angle, in radians, from each class to its nearest neighbor after tuning.
    """

    prediction: str | None
    confidence: float
    probs: Float[np.ndarray, " k"]
    angle: float
    error: str | None = None


class ZeroShotClassifier(ClassifierMixin, BaseEstimator):
    """Classify images by the names of the classes alone.

    `model` is a name that `load_backbone` knows or a loaded `Backbone`; `method` is a name of
    `METHODS` (with the weights of `preset`) or a `Method`. `template` is whatever `build_prompt`
    takes. `temperature` divides the logits on top of the method's own. `device` and `precision` are
    for models given by name.

    `batch_size` counts views per pass of the image encoder, or is "auto" for the fastest; `workers`
    counts the threads that decode.
    `on_error="nan"` answers an unreadable image with NaN instead of raising. `progress` is shown
    on a terminal when work takes long; True and False insist.

    The same image gets the same answer whatever its name, its neighbors and its place in the list.
    """

    def __init__(
        self,
        model: str | Path | Backbone = "pocket",
        method: str | Method = "a-tpt",
        template: str | Sequence[str] = DEFAULT_TEMPLATE,
        *,
        preset: str = "fine-grained",
        views: int = 64,
        augmix: bool = False,
        seed: int = 0,
        temperature: float = 1.0,
        device: str | torch.device | None = None,
        precision: str | None = None,
        batch_size: Batch = None,
        workers: int | None = None,
        on_error: Literal["raise", "nan"] = "raise",
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.template = template
        self.preset = preset
        self.views = views
        self.augmix = augmix
        self.seed = seed
        self.temperature = temperature
        self.device = device
        self.precision = precision
        self.batch_size = batch_size
        self.workers = workers
        self.on_error = on_error
        self.progress = progress

    def __sklearn_clone__(self) -> ZeroShotClassifier:
        """Share a loaded model with the copy: it is frozen."""
        return type(self)(**self.get_params(deep=False))

    def fit(self, classnames: Iterable[Any], y: Iterable[str] | None = None) -> ZeroShotClassifier:
        """Take the class names, in this order; or, as `fit(images, labels)`, sorted from labels."""
        names = check_distinct(classnames if y is None else _names_among(y))
        chosen = _choose(self.method, self.preset, self.temperature)
        views = ViewSettings(self.views, self.augmix, self.seed)
        if self.on_error not in ("raise", "nan"):
            raise UnknownName.of("on_error", str(self.on_error), ("raise", "nan"))
        backbone = self.model
        if not isinstance(backbone, Backbone):
            backbone = load_backbone(backbone, self.device, self.precision)
        prompt = build_prompt(backbone, names, self.template)
        method = prompt.admit(chosen)
        self.backbone_, self.prompt_, self.method_ = backbone, prompt, method
        self.views_ = views if method.looks_at_views else replace(views, count=1)
        self.classes_ = np.array(names)
        self._encoder = ImageEncoder(backbone, self.batch_size)
        self._engine, self._expected = Engine(backbone, prompt), 1
        return self

    def predict_proba(self, images: Source | Iterable[Source]) -> Float[np.ndarray, "n k"]:
        """Give the probability of every class, for a list of images or a single one."""
        answers = [answer.probs for answer in self._answers_or_raise(images)]
        return np.stack(answers) if answers else np.empty((0, len(self.classes_)), np.float32)

    def predict(self, images: Source | Iterable[Source]) -> np.ndarray:
        """Give the name of the most probable class (None for NaN, with `on_error="nan"`)."""
        names = [answer.prediction for answer in self._answers_or_raise(images)]
        return np.array(names, dtype=object if self.on_error == "nan" else self.classes_.dtype)

    def score(
        self,
        images: Source | Iterable[Source],
        labels: Sequence[str],
        sample_weight: Sequence[float] | None = None,
    ) -> float:
        """Give the share of readable images whose prediction is the label."""
        check_is_fitted(self)
        for label in set(labels) - set(self.classes_):
            raise UnknownName.of("class", str(label), self.classes_.tolist())
        sources = list_images(images)
        if len(sources) != len(labels):
            raise DataError(f"{len(sources)} images, but {len(labels)} labels: give one for each")
        names = self.predict(sources)
        weights = np.ones(len(names)) if sample_weight is None else np.asarray(sample_weight, float)
        weights = weights * np.array([name is not None for name in names])
        if not weights.sum():
            raise DataError("no image to score")
        return float(np.average(names == np.asarray(labels), weights=weights))

    def answers(self, images: Source | Iterable[Source]) -> Iterator[Answer]:
        """Answer image after image, in order; an unreadable one is an answer with an `error`."""
        check_is_fitted(self)
        sources = list_images(images)
        engine = self._engine_for(len(sources) if self.method_.looks_at_views else 1)
        with closing(self._encode(sources)) as encoded:
            rows = track(encoded, len(sources), "classify", self.progress)
            while chunk := list(islice(rows, TOGETHER)):
                yield from self._answer(engine, chunk)

    def _answers_or_raise(self, images: Source | Iterable[Source]) -> Iterator[Answer]:
        for answer in self.answers(images):
            if answer.error is not None and self.on_error == "raise":
                raise ImageError(answer.error)
            yield answer

    def _engine_for(self, images: int) -> Engine:
        """Prepare again when more images are coming than ever: more preparation may pay now."""
        if images > self._expected:
            self._engine = Engine(self.backbone_, self.prompt_, images=images)
            self._expected = images
        return self._engine

    def _encode(self, sources: Sequence[Source]) -> Generator[Tensor | str]:
        """Give the unit features of each image's views, or the reason why there are none."""
        return self._encoder.ahead(map(Picture, sources), self.views_, self.workers)

    def _answer(self, engine: Engine, rows: Sequence[Tensor | str]) -> Iterator[Answer]:
        found = [row for row in rows if isinstance(row, Tensor)]
        if found:
            (outcome,) = engine.predict(torch.stack(found), [self.method_])
            answered = zip(outcome.probs.float().cpu().numpy(), outcome.angle.tolist(), strict=True)
        for row in rows:
            if isinstance(row, str):
                nothing = np.full(len(self.classes_), np.nan, np.float32)
                yield Answer(None, math.nan, nothing, math.nan, row)
                continue
            probs, angle = next(answered)
            best = int(probs.argmax())
            yield Answer(str(self.classes_[best]), float(probs[best]), probs, angle)


@dataclass(frozen=True)
class Picture:
    """One image of a user, as the renderer takes it: its content is its id."""

    source: Source

    @property
    def id(self) -> str:
        """What its random views are drawn from."""
        return content_id(self.source)

    def open(self) -> Source:
        """Return what an image can be read from."""
        return self.source


def list_images(images: Source | Iterable[Source]) -> list[Source]:
    """Make a list of a batch, and of a single image: text is a path, never its letters."""
    if isinstance(images, str | Path | bytes | Image.Image):
        return [images]
    if isinstance(images, np.ndarray | Tensor) and images.ndim in (2, 3):
        return [images]
    if not isinstance(images, Iterable):
        raise ImageError(f"a {type(images).__name__}: give paths, Pillow images, arrays or tensors")
    return list(images)


def check_distinct(classnames: Iterable[Any]) -> tuple[str, ...]:
    """Refuse names that are empty or repeat: answers are keyed by them."""
    given = classnames if isinstance(classnames, str) else [str(name) for name in classnames]
    name, count = Counter(clean_classnames(given)).most_common(1)[0]
    if count > 1:
        raise PromptError(
            f"the class name {name!r} comes {count} times: answers are keyed by name, so merge "
            "these classes, or give each a name of its own"
        )
    return tuple(given)


def _names_among(labels: Iterable[str]) -> list[str]:
    labels = list(labels)
    other = next((label for label in labels if not isinstance(label, str)), None)
    if other is not None:
        raise PromptError(
            f"labels are the class names here, but {other!r} is a {type(other).__name__}: give "
            "names, or call fit(classnames)"
        )
    return sorted(set(labels))


def _choose(method: str | Method, preset: str, temperature: float) -> Method:
    known = select_methods("all", preset)
    if isinstance(method, str):
        if method not in known:
            raise UnknownName.of("method", method, known)
        method = known[method]
    if not temperature > 0:
        raise TammesError(f"the temperature is {temperature}: it must be above 0")
    return replace(method, temperature=method.temperature * temperature)
