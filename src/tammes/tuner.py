"""The specification: one image, one method, the plain loop. The engine must agree with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone
from tammes.method import Method
from tammes.objectives import mean_entropy, most_confident
from tammes.prompts import Prompt


@dataclass(frozen=True, eq=False)
class Episode:
    """What tuning on one image leaves behind."""

    logits: Float[Tensor, " n"]
    text: Float[Tensor, "n d"]
    context: Float[Tensor, "m w"]
    kept: Int[Tensor, " k"]
    losses: tuple[float, ...]

    @property
    def probs(self) -> Float[Tensor, " n"]:
        """Class probabilities of the clean view."""
        return self.logits.softmax(dim=-1)


def tune(
    backbone: Backbone, prompt: Prompt, method: Method, features: Float[Tensor, "v d"]
) -> Episode:
    """Tune the prompt on the unit features of one image's views (row 0 is the clean view)."""
    method = prompt.admit(method)
    features = features.to(backbone.device, torch.float32)
    context = prompt.starts(features[0]).clone().requires_grad_()
    optimizer = torch.optim.AdamW([context], lr=method.lr, weight_decay=method.weight_decay)
    kept, losses = None, []
    for _ in range(method.steps):
        text = class_features(backbone, prompt, context)
        logits = backbone.logits(features, text)
        kept = most_confident(logits.detach(), method.keep) if kept is None else kept
        loss = method.entropy * mean_entropy(logits[kept])
        for weight, term in method.terms:
            loss = loss + weight * term(text, prompt.same)
        (context.grad,) = torch.autograd.grad(loss, [context])
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        text = class_features(backbone, prompt, context)
        logits = backbone.logits(features, text)
    kept = most_confident(logits, method.keep) if kept is None else kept
    return Episode(logits[0] / method.temperature, text, context.detach(), kept, tuple(losses))


def class_features(
    backbone: Backbone, prompt: Prompt, context: Float[Tensor, "m w"]
) -> Float[Tensor, "n d"]:
    """Encode the class sentences around a context, as unit rows (an ensemble is averaged)."""
    text = backbone.encode_text(prompt.tokens, prompt.sentences(backbone, context))
    rows = normalize(text, dim=-1)
    if not prompt.others:
        return rows
    more = [backbone.encode_text(t, backbone.embed(t)) for t in prompt.others]
    return normalize(torch.stack([rows, *(normalize(m, dim=-1) for m in more)]).mean(0), dim=-1)
