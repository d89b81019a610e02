"""Class names that will trouble a model: found before an image is classified."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tammes.backbones import Backbone
from tammes.engine.text import text_encoder
from tammes.errors import PromptError
from tammes.prompts import DEFAULT_TEMPLATE, Prompt

# Two classes are too close below this share of the median angle between any two of the list.
# The yardstick is the list itself, because models differ in how much of the sphere they use.
CLOSE = 0.4


@dataclass(frozen=True)
class Finding:
    """One thing to look at: which names, what is wrong with them, what to do.

    `kind` is `empty`, `duplicate`, `overflow`, `variant` or `close`.
    """

    kind: str
    names: tuple[str, ...]
    what: str
    advice: str


def lint(
    backbone: Backbone, classnames: Sequence[str], template: str = DEFAULT_TEMPLATE
) -> list[Finding]:
    """Look for names that are empty, repeated, too long, or hard to tell apart for this model."""
    names = [str(name).replace("_", " ").strip() for name in classnames]
    if not names:
        raise PromptError("the list of class names is empty: name one class at least")
    if template.count("{}") != 1:
        raise PromptError(f"the template {template!r} must hold {{}} exactly once")
    distinct = [name for name in dict.fromkeys(names) if name]
    long = [name for name in distinct if not _fits(backbone, template.replace("{}", name))]
    readable = [name for name in distinct if name not in long]
    return [
        *_find_empty(names),
        *_find_duplicates(names),
        *_find_long(long, backbone),
        *_find_variants(distinct),
        *(_find_close(backbone, readable, template) if readable else ()),
    ]


def _find_empty(names: Sequence[str]) -> Iterable[Finding]:
    positions = [str(position) for position, name in enumerate(names) if not name]
    if positions:
        what = f"no name at position {', '.join(positions)} (from 0)"
        yield Finding("empty", (), what, "name the class, or remove it")


def _find_duplicates(names: Sequence[str]) -> Iterable[Finding]:
    for name in dict.fromkeys(names):
        if name and names.count(name) > 1:
            what = f"listed {names.count(name)} times: no image can be told to be one or the other"
            yield Finding("duplicate", (name,), what, "merge them, or give each a name of its own")


def _find_long(long: Sequence[str], backbone: Backbone) -> Iterable[Finding]:
    for name in long:
        what = f"its sentence needs more than the {backbone.context_length} tokens of the model"
        yield Finding("overflow", (name,), what, "shorten the name or the template")


def _find_variants(distinct: Sequence[str]) -> Iterable[Finding]:
    plain = {name: _plain(name) for name in distinct}
    groups: dict[str, list[str]] = {}
    for name in distinct:
        groups.setdefault(_singular(plain[name], plain.values()), []).append(name)
    for alike in groups.values():
        if len(alike) > 1:
            what = "differ in nothing but case, punctuation or plural"
            yield Finding("variant", tuple(alike), what, "keep one, or say what sets them apart")


def _find_close(backbone: Backbone, names: Sequence[str], template: str) -> Iterable[Finding]:
    prompt = Prompt.from_template(backbone, names, template)
    with torch.no_grad():
        text = text_encoder(backbone, prompt)(prompt.context[None])[0].float()
    angles = (text @ text.mT).clamp(-1, 1).acos()
    others = angles[~prompt.same]
    usual = float(others.median()) if len(others) else 0.0
    for angle, one, other in _nearest_pairs(angles.masked_fill(prompt.same, torch.inf)):
        if angle < CLOSE * usual:
            what = f"{angle:.3f} rad apart, where {usual:.3f} is usual in this list"
            advice = "add words that set them apart, or expect them to share their probability"
            yield Finding("close", (prompt.classnames[one], prompt.classnames[other]), what, advice)


def _nearest_pairs(angles: Float[Tensor, "n n"]) -> list[tuple[float, int, int]]:
    """Pair every class with its nearest neighbor, each pair once, the closest first."""
    nearest, partner = angles.min(dim=1)
    found = zip(nearest.tolist(), range(len(angles)), partner.tolist(), strict=True)
    pairs = {(min(one, other), max(one, other)): angle for angle, one, other in found}
    return sorted((angle, *pair) for pair, angle in pairs.items())


def _fits(backbone: Backbone, sentence: str) -> bool:
    try:
        return bool(len(backbone.tokenize([sentence])))
    except PromptError:
        return False


def _plain(name: str) -> str:
    """Reduce a name to its words in lower case."""
    return " ".join("".join(c if c.isalnum() else " " for c in name.casefold()).split())


def _singular(name: str, known: Collection[str]) -> str:
    """Find the name that this one is an English plural of, if it is in the list as well."""
    endings = (("ies", "y"), ("es", ""), ("s", ""))
    ones = (name.removesuffix(end) + instead for end, instead in endings if name.endswith(end))
    return next((one for one in ones if one in known), name)
