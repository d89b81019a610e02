"""The exact batched engine: what `tuner.tune` computes, for many images and methods at once."""

from tammes.engine.engine import Engine, Outcome

__all__ = ["Engine", "Outcome"]
