"""Many images, many methods, one pass: whatever images or methods share is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone
from tammes.engine.flex import TOKENS, power_of_two
from tammes.engine.gradient import Pullback, entropy_slope, jacobian_pays
from tammes.engine.text import TextEncoder, text_encoder
from tammes.method import Method
from tammes.objectives import mean_entropy, most_confident
from tammes.prompts import Prompt
from tammes.regularizers import Term, mean_cosine, nearest_angles
from tammes.threads import ahead, single_threads

TOKENS_PER_PASS = {"cpu": 8192, "cuda": TOKENS}
TOKENS_PER_THREAD = 1024  # that a CPU thread reads at once: its cache is small


@dataclass(frozen=True, eq=False)
class Outcome:
    """One method's answers for a batch of images.

    After the last step: `angle`, from a class to the nearest one, and `cosine`, between any two,
    both means over the classes; `text`, the class features averaged over the batch and made unit
    again. `image_independent` is the share of context coordinates whose first step has the sign of
    the terms' gradient alone; NaN where there is no step, no term or no start that images share.
    """

    logits: Float[Tensor, "b n"]
    angle: Float[Tensor, " b"]
    kept: Int[Tensor, "b k"]
    losses: Float[Tensor, "b s"]
    image_independent: Float[Tensor, " b"]
    text: Float[Tensor, "n d"]
    cosine: Float[Tensor, " b"]

    @property
    def probs(self) -> Float[Tensor, "b n"]:
        """Class probabilities of the clean views."""
        return self.logits.softmax(dim=-1)


class Engine:
    """One model and one prompt, ready for any number of images and methods.

    `images` says how many are coming, where that is known: with enough of them the Jacobian of the
    class features is worth building (`gradient="auto"`).
    """

    def __init__(
        self,
        backbone: Backbone,
        prompt: Prompt,
        images: int = 1,
        gradient: Literal["auto", "vjp", "jacobian"] = "auto",
    ) -> None:
        self._backbone, self._prompt = backbone, prompt
        self._encode = text_encoder(backbone, prompt)
        budget = TOKENS_PER_PASS.get(backbone.device.type, TOKENS_PER_PASS["cpu"])
        self._per_pass = power_of_two(budget // self._encode.tokens)
        self._static: dict[Method, tuple[Tensor, Tensor]] = {}
        self._start = None if prompt.conditioned else Start(self._encode, prompt, self._per_pass)
        self.reason = "asked for" if gradient != "auto" else "each image has a start of its own"
        if self._start is not None and gradient != "vjp":
            why = self._start.prepare(images, always=gradient == "jacobian")
            self.reason = why or self.reason

    @property
    def start(self) -> Float[Tensor, "n d"] | None:
        """Class features at the start that images share, if they share one."""
        return None if self._start is None else self._start.text

    @property
    def gradient(self) -> str:
        """How the first step's gradients are taken: `jacobian`, `vjp` or `per image`.

        `reason` says why.
        """
        return "per image" if self._start is None else self._start.kind

    def way(self, method: Method) -> str:
        """Say how a method's gradients are taken, and why; nothing where it takes no step."""
        if not method.tunes:
            return ""
        if method.steps > 1:
            return f"per image: {method.steps} steps"
        return f"{self.gradient}: {self.reason}"

    @torch.no_grad()
    def predict(self, features: Float[Tensor, "b v d"], methods: Sequence[Method]) -> list[Outcome]:
        """Answer for every method, from unit view features (row 0 is the clean view)."""
        methods = [self._prompt.admit(method) for method in methods]
        glance = self._look(features.to(self._backbone.device, torch.float32))
        plain = [replace(method, temperature=1.0) for method in methods]
        answers = {method: self._answer(glance, method) for method in dict.fromkeys(plain)}
        return [
            replace(answers[p], logits=answers[p].logits / m.temperature)
            for p, m in zip(plain, methods, strict=True)
        ]

    def _look(self, features: Tensor) -> Glance:
        if self._start is not None:
            return Glance(self._backbone, features, self._start.text[None], self._start)
        starts = self._prompt.starts(features[:, 0])
        text = torch.cat([self._encode(chunk) for chunk in starts.split(self._per_pass)])
        return Glance(self._backbone, features, text, None)

    def _answer(self, glance: Glance, method: Method) -> Outcome:
        if self._start is not None and not method.looks_at_views:
            losses, text = self._one_for_all(glance, method)
            logits, angle, cosine = self._read(glance.features, text)
            mean = text[0]
        else:
            contexts, losses = self._tune(glance, method)
            logits, angle, cosine, mean = self._read_all(glance.features, contexts)
        size = len(glance.features)
        kept, share = glance.kept(method.keep), glance.image_independent(method)
        losses, angle, cosine = losses.expand(size, -1), angle.expand(size), cosine.expand(size)
        return Outcome(logits, angle, kept, losses, share, mean, cosine)

    def _read_all(
        self, features: Tensor, contexts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Encode the contexts, a few per pass; give what `_read` does, and mean class features.

        Where a CPU has passes for all of its threads they are small and run side by side, a thread
        each: in a large one every layer waits for the slowest, and no cache holds what it writes.
        """

        @torch.no_grad()  # which each thread has to say for itself
        def read(some: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
            text = self._encode(some[1])
            return *self._read(some[0], text), text.sum(dim=0)[None]

        size, threads = self._per_pass, 1
        small = power_of_two(TOKENS_PER_THREAD // self._encode.tokens)
        if features.device.type == "cpu" and len(features) >= small * torch.get_num_threads():
            size, threads = small, torch.get_num_threads()
        passes = zip(features.split(size), contexts.split(size), strict=True)
        if threads > 1:
            found = [*ahead(read, passes, threads, 2 * threads, single_threads)]
        else:
            found = [read(some) for some in passes]
        logits, angle, cosine, sums = (torch.cat(parts) for parts in zip(*found, strict=True))
        return logits, angle, cosine, normalize(sums.sum(dim=0), dim=-1)

    def _one_for_all(self, glance: Glance, method: Method) -> tuple[Tensor, Tensor]:
        """Tune once, for every image of every batch: no image has a say in this method."""
        if method not in self._static:
            contexts, losses = self._tune(glance, method)
            self._static[method] = losses[:1], self._encode(contexts[:1])
        return self._static[method]

    def _read(self, features: Tensor, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give logits, mean nearest angle and mean cosine for tuned class features."""
        logits, same = self._backbone.logits(features[:, :1], text)[:, 0], self._prompt.same
        return logits, nearest_angles(text, same).mean(dim=-1), mean_cosine(text, same)

    def _tune(self, glance: Glance, method: Method) -> tuple[Tensor, Tensor]:
        """Give the contexts after the last step, and the loss before each."""
        starts = self._prompt.starts(glance.features[:, 0])
        if not method.tunes:
            return starts, starts.new_zeros(len(starts), 0)
        if self._start is not None and method.steps == 1:
            loss, gradient = glance.first_loss(method)
            return first_step(starts, gradient, method), loss[:, None]
        tuned = [
            self._descend(features, contexts, kept, method)
            for features, contexts, kept in zip(
                glance.features.split(self._per_pass),
                starts.split(self._per_pass),
                glance.kept(method.keep).split(self._per_pass),
                strict=True,
            )
        ]
        contexts, losses = zip(*tuned, strict=True)
        return torch.cat(contexts), torch.cat(losses)

    def _descend(
        self, features: Tensor, starts: Tensor, kept: Tensor, method: Method
    ) -> tuple[Tensor, Tensor]:
        """Take all steps by plain descent: AdamW works on each coordinate, so on images at once."""
        contexts = starts.clone().requires_grad_()
        chosen = features.gather(1, kept[..., None].expand(-1, -1, features.shape[-1]))
        optimizer = torch.optim.AdamW([contexts], lr=method.lr, weight_decay=method.weight_decay)
        losses = []
        for _ in range(method.steps):
            with torch.enable_grad():
                text = self._encode(contexts)
                loss = method.entropy * mean_entropy(self._backbone.logits(chosen, text))
                for weight, term in method.terms:
                    loss = loss + weight * term(text, self._prompt.same)
                (contexts.grad,) = torch.autograd.grad(loss.sum(), [contexts])
            optimizer.step()
            losses.append(loss.detach())
        return contexts.detach(), torch.stack(losses, dim=1)


class Start:
    """The start that all images share: class features, and the terms' values and gradients."""

    def __init__(self, encode: TextEncoder, prompt: Prompt, per_pass: int) -> None:
        self._encode, self._prompt = encode, prompt
        self._terms: dict[Term, tuple[Tensor, Tensor]] = {}
        self.pull = Pullback(encode, prompt.context, per_pass)
        self.text = self.pull.text

    @property
    def kind(self) -> str:
        """How gradients are taken."""
        return self.pull.kind

    def prepare(self, images: int, always: bool = False) -> str:
        """Build the Jacobian where it pays for this many images; say why or why not."""
        context, pays, why = self._prompt.context, always, ""
        if not always:
            pays, why = jacobian_pays(self._encode, self.text, context, images)
        if pays:
            self.pull.build_jacobian()
        return why

    def terms(self, method: Method) -> tuple[Tensor, Tensor]:
        """Give the weighted sum of the method's terms, and its gradient."""
        value, slope = self.text.new_zeros(()), torch.zeros_like(self._prompt.context)
        for weight, term in method.terms:
            one, gradient = self._term(term)
            value, slope = value + weight * one, slope + weight * gradient
        return value, slope

    def _term(self, term: Term) -> tuple[Tensor, Tensor]:
        if term not in self._terms:
            with torch.enable_grad():
                text = self.text.clone().requires_grad_()
                value = term(text, self._prompt.same)
                (slope,) = torch.autograd.grad(value, text)
            self._terms[term] = value.detach(), self.pull(slope[None])[0]
        return self._terms[term]


class Glance:
    """One batch seen at the start: what every method makes use of, computed at most once."""

    def __init__(
        self, backbone: Backbone, features: Tensor, text: Tensor, start: Start | None
    ) -> None:
        self.features = features
        self._backbone, self._start = backbone, start
        self._logits = backbone.logits(features, text)
        self._kept: dict[float, Tensor] = {}
        self._entropy: dict[float, tuple[Tensor, Tensor]] = {}

    def kept(self, keep: float) -> Int[Tensor, "b k"]:
        """Choose the confident views."""
        if keep not in self._kept:
            self._kept[keep] = most_confident(self._logits, keep)
        return self._kept[keep]

    def first_loss(self, method: Method) -> tuple[Float[Tensor, " b"], Float[Tensor, "b m w"]]:
        """Give the loss of the first step and its gradient (from the shared start)."""
        assert self._start is not None
        value, slope = self._start.terms(method)
        if not method.entropy:
            size = len(self.features)
            return value.expand(size), slope.expand(size, -1, -1)
        entropy, gradient = self._entropy_at_start(method.keep)
        return method.entropy * entropy + value, method.entropy * gradient + slope

    def image_independent(self, method: Method) -> Float[Tensor, " b"]:
        """Count the coordinates whose first step has the sign of the terms' gradient alone."""
        if self._start is None or not method.tunes or not method.terms:
            return self.features.new_full((len(self.features),), float("nan"))
        _, total = self.first_loss(method)
        _, alone = self._start.terms(method)
        return (total.sign() == alone.sign()).float().mean(dim=(1, 2))

    def _entropy_at_start(self, keep: float) -> tuple[Tensor, Tensor]:
        if keep not in self._entropy:
            assert self._start is not None
            index = self.kept(keep)[..., None]
            logits = self._logits.gather(1, index.expand(-1, -1, self._logits.shape[-1]))
            chosen = self.features.gather(1, index.expand(-1, -1, self.features.shape[-1]))
            value, slope = entropy_slope(logits, chosen, self._backbone.scale.to(chosen.device))
            self._entropy[keep] = value, self._start.pull(slope)
        return self._entropy[keep]


def first_step(
    context: Float[Tensor, "b m w"], gradient: Float[Tensor, "b m w"], method: Method
) -> Float[Tensor, "b m w"]:
    """Take AdamW's first step in closed form: its moments are the gradient and its square."""
    decayed = context * (1 - method.lr * method.weight_decay)
    return decayed - method.lr * gradient / (gradient.abs() + 1e-8)
