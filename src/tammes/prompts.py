"""A prompt: one sentence per class around a context that can be replaced."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from tammes.backbones import Backbone
from tammes.backbones.checkpoint import read_weights
from tammes.datasets import TEMPLATES
from tammes.errors import PromptError, UnknownName, WeightsError
from tammes.method import Method

DEFAULT_TEMPLATE = "a photo of a {}."


@dataclass(frozen=True, eq=False)
class MetaNet:
    """CoCoOp's two-layer network: from an image's features to a shift of the context.

    `rescale` multiplies the unit features first. CoCoOp trains on unit features (1.0, the default);
    the released TPT code feeds it raw ones, about ten times longer.
    """

    inner_weight: Float[Tensor, "h d"]
    inner_bias: Float[Tensor, " h"]
    outer_weight: Float[Tensor, "w h"]
    outer_bias: Float[Tensor, " w"]
    rescale: float = 1.0

    def __call__(self, features: Float[Tensor, "*b d"]) -> Float[Tensor, "*b w"]:
        """Compute the shift of every context token."""
        hidden = functional.linear(features * self.rescale, self.inner_weight, self.inner_bias)
        return functional.linear(hidden.relu(), self.outer_weight, self.outer_bias)


@dataclass(frozen=True, eq=False)
class Prompt:
    """N token sequences that share one context; immutable.

    The context is rows `first … first + M` of every sequence. `others` holds the token rows of
    further templates (an ensemble): such a prompt serves zero-shot only.
    """

    classnames: tuple[str, ...]
    template: str
    tokens: Int[Tensor, "n l"]
    context: Float[Tensor, "m w"]
    first: int
    meta_net: MetaNet | None = None
    others: tuple[Int[Tensor, "n l"], ...] = field(default=())

    @classmethod
    def from_template(
        cls,
        backbone: Backbone,
        classnames: Sequence[str],
        template: str | Sequence[str] = DEFAULT_TEMPLATE,
    ) -> Prompt:
        """Put class names into a template; the tokens before `{}` are the learnable context."""
        names = clean_classnames(classnames)
        templates = [template] if isinstance(template, str) else list(template)
        if not templates:
            raise PromptError("the list of templates is empty")
        rows = [_fill(backbone, names, one) for one in templates]
        first, size = _shared(backbone, rows[0], templates[0])
        context = backbone.embed(rows[0][:1, first : first + size])[0]
        written = " | ".join(templates) if len(templates) < 4 else f"{len(templates)} templates"
        return cls(names, written, rows[0], context, first, others=tuple(rows[1:]))

    @classmethod
    def from_coop(cls, backbone: Backbone, classnames: Sequence[str], path: str | Path) -> Prompt:
        """Start from the context of a CoOp checkpoint, of any length."""
        weights = read_weights(path)
        if any("meta_net." in name for name in weights):
            raise WeightsError(f"{path} holds a meta-net: it is CoCoOp's, so use cocoop:{path}")
        return cls.around(backbone, classnames, _context_of(weights, path), f"coop:{path}")

    @classmethod
    def from_cocoop(
        cls,
        backbone: Backbone,
        classnames: Sequence[str],
        path: str | Path,
        rescale: float = 1.0,
    ) -> Prompt:
        """Start from a CoCoOp checkpoint: its context moves with each image's features."""
        weights = read_weights(path)
        written = f"cocoop:{path}" if rescale == 1 else f"cocoop({rescale:g}):{path}"
        plain = cls.around(backbone, classnames, _context_of(weights, path), written)
        net = _meta_net_of(weights, path, backbone, rescale)
        return replace(plain, meta_net=net)

    @classmethod
    def around(
        cls,
        backbone: Backbone,
        classnames: Sequence[str],
        context: Float[Tensor, "m w"],
        written: str,
    ) -> Prompt:
        """Build the sentences around a learned context; `written` is what errors call it."""
        if context.ndim != 2 or context.shape[1] != backbone.width or not len(context):
            raise PromptError(
                f"{written}: the context has shape {tuple(context.shape)}; {backbone.name} needs "
                f"[tokens, {backbone.width}]"
                + (" (one context per class is not supported)" if context.ndim == 3 else "")
            )
        if not bool(context.isfinite().all()):
            raise PromptError(f"{written}: the context holds values that are not finite numbers")
        names, placeholders = clean_classnames(classnames), " ".join(["X"] * len(context))
        try:
            plain = cls.from_template(backbone, names, f"{placeholders} {{}}.")
        except PromptError as problem:
            raise PromptError(
                f"{written}: its context of {len(context)} tokens leaves too little room for class "
                f"names, the longest of which is {max(names, key=len)[:60]!r}: {problem}"
            ) from problem
        if len(plain.context) != len(context):
            raise PromptError(f"{written}: the tokenizer of {backbone.name} merges placeholders")
        return replace(plain, template=written, context=context.to(plain.context))

    @property
    def conditioned(self) -> bool:
        """Whether the start depends on the image."""
        return self.meta_net is not None

    @cached_property
    def groups(self) -> Int[Tensor, " n"]:
        """The same number for classes that share a token sequence."""
        found = torch.unique(self.tokens.cpu(), dim=0, return_inverse=True)[1]
        return found.to(self.tokens.device)

    @cached_property
    def same(self) -> Bool[Tensor, "n n"]:
        """Pairs of classes that no prompt can tell apart (and each class with itself)."""
        return self.groups[:, None] == self.groups[None, :]

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the sentences and the start."""
        digest = hashlib.blake2b(str(self.first).encode(), digest_size=16)
        tensors = [self.tokens, *self.others, self.context]
        if self.meta_net is not None:
            net = self.meta_net
            tensors += [net.inner_weight, net.inner_bias, net.outer_weight, net.outer_bias]
            digest.update(str(net.rescale).encode())
        for tensor in tensors:
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def starts(self, features: Float[Tensor, "*b d"]) -> Float[Tensor, "*b m w"]:
        """Give the start for images with these unit features."""
        if self.meta_net is None:
            return self.context.expand(*features.shape[:-1], *self.context.shape)
        return self.context + self.meta_net(features)[..., None, :]

    def sentences(
        self, backbone: Backbone, context: Float[Tensor, "m w"]
    ) -> Float[Tensor, "n l w"]:
        """Embed the class sentences with their context replaced."""
        embedded = backbone.embed(self.tokens)
        before, after = embedded[:, : self.first], embedded[:, self.first + len(context) :]
        return torch.cat([before, context.expand(len(embedded), -1, -1), after], dim=1)

    def admit(self, method: Method) -> Method:
        """Refuse to tune what has no single context; take no step where nothing can be told apart.

        With one class, or only copies of one, every gradient is rounding noise, and AdamW's first
        step would turn its sign into a full step.
        """
        if not method.tunes:
            return method
        if self.others:
            raise PromptError(
                f"an ensemble of {len(self.others) + 1} templates has no single context to tune: "
                "use one template, or the method 'zero-shot'"
            )
        if not len(self.context):
            raise PromptError(
                f"the template {self.template!r} has no words before {{}}, so there is no context "
                "to tune: put words before {}, or use the method 'zero-shot'"
            )
        return replace(method, steps=0) if bool(self.same.all()) else method


def clean_classnames(classnames: Sequence[str]) -> tuple[str, ...]:
    """Read `_` as a space and trim; an empty list or name is an error that says where."""
    if isinstance(classnames, str):
        raise PromptError(f"classnames must be a list of names, not the one text {classnames!r}")
    names = tuple(str(name).replace("_", " ").strip() for name in classnames)
    if not names:
        raise PromptError("the list of class names is empty: name one class at least")
    empty = [position for position, name in enumerate(names) if not name]
    if empty:
        raise PromptError(f"class names at positions {empty[:10]} (from 0) are empty")
    return names


def build_prompt(
    backbone: Backbone, classnames: Sequence[str], template: str | Sequence[str]
) -> Prompt:
    """Build a prompt from a template, several, a name of `TEMPLATES`, coop:FILE or cocoop:FILE.

    `cocoop(10):FILE` multiplies the unit features that the meta-net sees by 10: about what the
    released TPT code feeds it.
    """
    if isinstance(template, str) and "{}" not in template:
        if template.startswith("coop:"):
            return Prompt.from_coop(backbone, classnames, template.removeprefix("coop:"))
        if found := re.fullmatch(r"cocoop(?:\((\d+\.?\d*)\))?:(.+)", template, re.DOTALL):
            return Prompt.from_cocoop(backbone, classnames, found[2], float(found[1] or 1))
        if template not in TEMPLATES:
            raise UnknownName.of("template", template, [*TEMPLATES, "or a sentence with {}"])
        template = TEMPLATES[template]
    return Prompt.from_template(backbone, classnames, template)


def _fill(backbone: Backbone, names: Sequence[str], template: str) -> Tensor:
    if template.count("{}") != 1:
        raise PromptError(f"the template {template!r} must hold {{}} exactly once")
    before, after = template.split("{}")
    return backbone.tokenize([f"{before}{name}{after}" for name in names])


def _shared(backbone: Backbone, rows: Tensor, template: str) -> tuple[int, int]:
    """Locate the context: after the leading special tokens, while all sentences agree with it."""
    before = template.split("{}")[0].strip()
    if not before:
        return backbone.leading, 0
    agree = (rows == backbone.tokenize([before])).all(dim=0)
    length = int(agree.cpu().int().cumprod(0).sum())
    return backbone.leading, max(0, length - backbone.leading)


def _context_of(weights: dict[str, Tensor], path: str | Path) -> Tensor:
    for key in ("ctx", "prompt_learner.ctx", "prompt_generator.ctx"):
        if key in weights:
            return weights[key].float()
    raise WeightsError(f"{path} holds no context: looked for 'ctx', found {sorted(weights)[:6]}")


def _meta_net_of(
    weights: dict[str, Tensor], path: str | Path, backbone: Backbone, rescale: float
) -> MetaNet:
    ends = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
    found = [
        next((v for k, v in weights.items() if k.endswith(f"meta_net.{end}")), None) for end in ends
    ]
    if any(v is None for v in found):
        raise WeightsError(f"{path} holds no meta-net: found {sorted(weights)[:8]}")
    a, b, c, d = (v.float().to(backbone.device) for v in found if v is not None)
    net = MetaNet(a, b, c, d, rescale)
    if net.inner_weight.shape[1] != backbone.dim or net.outer_weight.shape[0] != backbone.width:
        raise PromptError(
            f"{path}: the meta-net maps {net.inner_weight.shape[1]} to {net.outer_weight.shape[0]} "
            f"numbers; {backbone.name} needs {backbone.dim} to {backbone.width}"
        )
    return net
