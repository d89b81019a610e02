"""Backbones, found by name: `load_backbone("pocket")`, `"ViT-B-16/openai"`, a file, a folder."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch

from tammes.backbones import _open_clip, _transformers
from tammes.backbones.backbone import Backbone, CausalText
from tammes.errors import TammesError, UnknownName, WeightsError

__all__ = ["Backbone", "CausalText", "list_models", "load_backbone", "pick_device"]

PRECISIONS = ("fp32", "fp16", "bf16")


def load_backbone(
    name: str | Path = "pocket",
    device: str | torch.device | None = None,
    precision: str | None = None,
) -> Backbone:
    """Load a frozen model by name, file or folder.

    `"pocket"` ships with the package; `"ViT-B-16/openai"` and `"hf-hub:owner/model"` come through
    open_clip, `"hf:owner/model"` through transformers; a path may be an OpenAI-style checkpoint or
    a directory of either library. The default device is CUDA, else Apple's mps, else the CPU; the
    default precision is fp16 on CUDA and fp32 elsewhere.
    """
    where = pick_device(device)
    kind = precision or ("fp16" if where.type == "cuda" else "fp32")
    if kind not in PRECISIONS:
        raise UnknownName.of("precision", kind, PRECISIONS)
    text = str(name)
    if text == "pocket":
        return _open_clip.load_directory(_pocket(), "pocket", where, kind)
    if text.startswith("hf-hub:"):
        return _open_clip.load_hub(text, where, kind)
    if text.startswith("hf:"):
        return _transformers.load_transformers(text.removeprefix("hf:"), text, where, kind)
    if Path(text).expanduser().exists():
        return _load_path(Path(text).expanduser(), where, kind)
    if Path(text).suffix in (".pt", ".pth", ".bin", ".safetensors"):
        raise WeightsError(f"no checkpoint at {text}")
    if "/" not in text and text not in _architectures():
        raise UnknownName.of("model", text, ["pocket", *_architectures()])
    return _open_clip.load_tagged(text, where, kind)


def list_models() -> list[str]:
    """Name every model that `load_backbone` finds by itself."""
    import open_clip

    return ["pocket", *(f"{a}/{t}" for a, t in open_clip.list_pretrained())]


def _load_path(path: Path, device: torch.device, precision: str) -> Backbone:
    name = path.name
    if path.is_file():
        return _open_clip.load_openai(path, name, device, precision)
    if (path / "open_clip_config.json").is_file():
        return _open_clip.load_directory(path, name, device, precision)
    if (path / "config.json").is_file():
        return _transformers.load_transformers(str(path), name, device, precision)
    raise WeightsError(
        f"{path} holds neither open_clip_config.json (open_clip) nor config.json (transformers)"
    )


def pick_device(device: str | torch.device | None) -> torch.device:
    """Find a device by name; where none is named CUDA, else Apple's mps, else the CPU."""
    at_hand = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    usual = next((name for name, here in at_hand.items() if here), "cpu")
    try:
        where = torch.device(device or usual)
    except RuntimeError as problem:
        raise TammesError(f"no device {device!r}: {str(problem).splitlines()[0]}") from problem
    if not at_hand.get(where.type, True):
        raise TammesError(f"no {where.type.upper()} device is available here; use device='cpu'")
    return where


def _pocket() -> Path:
    folder = Path(str(resources.files("tammes") / "assets" / "pocket"))
    if not (folder / "open_clip_config.json").is_file():
        raise WeightsError(f"the pocket model is not in this installation: {folder} is missing")
    return folder


def _architectures() -> list[str]:
    import open_clip

    return list(open_clip.list_models())
