"""Zero-shot image classification with CLIP-like models whose confidence can be trusted."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tammes.backbones import Backbone, list_models, load_backbone
    from tammes.classifier import ZeroShotClassifier
    from tammes.datasets import load_dataset
    from tammes.engine import Engine, Outcome
    from tammes.errors import TammesError
    from tammes.method import METHODS, PRESETS, Method, select_methods
    from tammes.prompts import Prompt
    from tammes.tuner import Episode, tune
    from tammes.views import ViewSettings

__version__ = "0.1.0"

if sys.platform == "darwin":  # what Apple's GPU cannot do runs on the CPU; torch reads this once
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")

# Names are imported when they are first used: `import tammes` itself stays instant.
_HOMES = {
    "Backbone": "backbones",
    "list_models": "backbones",
    "load_backbone": "backbones",
    "ZeroShotClassifier": "classifier",
    "load_dataset": "datasets",
    "Engine": "engine",
    "Outcome": "engine",
    "TammesError": "errors",
    "METHODS": "method",
    "PRESETS": "method",
    "Method": "method",
    "select_methods": "method",
    "Prompt": "prompts",
    "Episode": "tuner",
    "tune": "tuner",
    "ViewSettings": "views",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tammes' has no attribute {name!r}")
    value = getattr(import_module(f"tammes.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
