"""Learned starts: contexts trained on a few labeled images per class, as CoOp and CoCoOp do."""

from __future__ import annotations

from tammes.training.recipe import COCOOP, COOP, Recipe
from tammes.training.trainer import Training, train, train_cocoop, train_coop

__all__ = ["COCOOP", "COOP", "Recipe", "Training", "train", "train_cocoop", "train_coop"]
