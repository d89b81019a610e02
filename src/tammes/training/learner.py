"""What is learned: a context, and for CoCoOp the meta-net that moves it with each image.

Parameters are named as in CoOp's own files: `ctx`, `meta_net.linear1.weight`, …
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tammes.backbones import Backbone
from tammes.prompts import MetaNet, Prompt
from tammes.training.recipe import SPREAD, Recipe, random_stream

NARROWING = 16  # the meta-net's hidden layer has a sixteenth of the features' length


class Context(nn.Module):
    """One context for all images (CoOp)."""

    def __init__(self, start: Float[Tensor, "m w"]) -> None:
        super().__init__()
        self.ctx = nn.Parameter(start.clone())

    def forward(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "*b m w"]:
        """Give the context of these images: one that they share."""
        return self.ctx[None]

    def prompt(self, around: Prompt) -> Prompt:
        """Give the sentences with what was learned in their hole."""
        return replace(around, context=self.ctx.detach().clone())


class ConditionedContext(Context):
    """A context that moves with the image's unit features (CoCoOp)."""

    def __init__(self, start: Float[Tensor, "m w"], dim: int) -> None:
        super().__init__(start)
        hidden = max(1, dim // NARROWING)
        parts = OrderedDict(
            linear1=nn.Linear(dim, hidden),
            relu=nn.ReLU(),
            linear2=nn.Linear(hidden, start.shape[1]),
        )
        self.meta_net = nn.Sequential(parts)

    def forward(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b m w"]:
        """Give the context of each image."""
        return self.ctx + self.meta_net(features)[:, None]

    def prompt(self, around: Prompt) -> Prompt:
        """Give the sentences with what was learned in their hole."""
        weights = self.meta_net.state_dict()
        ends = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
        net = MetaNet(*(weights[end].clone() for end in ends))
        return replace(super().prompt(around), meta_net=net)


def start_prompt(
    backbone: Backbone, classnames: tuple[str, ...], recipe: Recipe, written: str
) -> Prompt:
    """Build the sentences around the start that a recipe asks for."""
    if isinstance(recipe.start, str):
        words = Prompt.from_template(backbone, classnames, f"{recipe.start.strip()} {{}}.")
        return Prompt.around(backbone, classnames, words.context, written)
    shape = recipe.start, backbone.width
    context = SPREAD * torch.randn(shape, generator=random_stream("start", recipe.seed))
    return Prompt.around(backbone, classnames, context, written)


def new_learner(backbone: Backbone, prompt: Prompt, recipe: Recipe) -> Context:
    """Set up what is learned; a meta-net starts from torch's usual random weights."""
    if not recipe.conditioned:
        return Context(prompt.context).to(backbone.device)
    seed = random_stream("meta-net", recipe.seed).initial_seed()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learner = ConditionedContext(prompt.context.cpu(), backbone.dim)
    return learner.to(backbone.device)
