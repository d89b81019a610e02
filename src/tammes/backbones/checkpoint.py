"""Read weights without running anything: safetensors, `weights_only` pickles, old JIT archives."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from tammes.errors import WeightsError

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a flat state dict from any checkpoint file, executing none of its code."""
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"no checkpoint at {path}")
    try:
        return dequantize(_read(path))
    except (
        *(OSError, RuntimeError, ValueError, KeyError, EOFError, TypeError, AttributeError),
        *(pickle.UnpicklingError, zipfile.BadZipFile, SafetensorError, StopIteration),
    ) as problem:
        told = str(problem).split("\n")[0][:200]
        telling = (OSError, RuntimeError, ValueError, zipfile.BadZipFile, SafetensorError)
        first = told if isinstance(problem, telling) else "it holds something else than tensors"
        raise WeightsError(
            f"cannot read {path}: {first}. Expected safetensors, a state dict that torch.load "
            "reads with weights_only=True, or an OpenAI JIT archive; it may be damaged or half "
            "downloaded."
        ) from problem


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    if _is_jit_archive(path):
        weights: dict[str, Tensor] = {}
        _collect(_read_inert(path), "", weights)
        return weights
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters comes as an error
            return _flat(torch.load(path, map_location="cpu", weights_only=True))
    except pickle.UnpicklingError:
        if not zipfile.is_zipfile(path):
            raise
        return _flat(_read_inert(path))  # CoOp's files hold a scheduler object beside the tensors


def dequantize(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Expand int8 rows that come with a `<name>.scale` per row; leave the rest alone."""
    scales = {k for k in weights if k.endswith(".scale") and k.removesuffix(".scale") in weights}
    expanded = {k: v for k, v in weights.items() if k not in scales}
    for key in scales:
        name = key.removesuffix(".scale")
        expanded[name] = weights[name].float() * weights[key].float()[:, None]
    return expanded


def _flat(loaded: Any) -> dict[str, Tensor]:
    """Unwrap `state_dict` and `module.`, the two habits of training scripts."""
    weights = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else loaded
    if not isinstance(weights, dict) or not any(isinstance(v, Tensor) for v in weights.values()):
        raise ValueError(f"holds a {type(loaded).__name__}, not a state dict")
    tensors = {k: v for k, v in weights.items() if isinstance(v, Tensor)}
    return {k.removeprefix("module."): v for k, v in tensors.items()}


def _is_jit_archive(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def _read_inert(path: Path) -> Any:
    """Load a zipped pickle with tensors and containers alive and everything else inert."""
    with zipfile.ZipFile(path) as archive:
        main = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        return _InertReader(archive, main).load()


def _collect(node: Any, prefix: str, into: dict[str, Tensor]) -> None:
    """Name the tensors of a module tree as its state dict would."""
    for name, value in getattr(node, "state", {}).items():
        if isinstance(value, Tensor):
            into[prefix + name] = value
        elif isinstance(value, _Inert):
            _collect(value, f"{prefix}{name}.", into)


class _Inert:
    """Stands for an object of any class: keeps its attributes, has none of its behavior."""

    state: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, *_: Any) -> _Inert:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def extend(self, values: Any) -> None:
        """Take list items, to keep none."""

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else {}


class _InertReader(pickle.Unpickler):
    """Calls nothing that a file names: tensors are rebuilt here, other classes become `_Inert`."""

    def __init__(self, archive: zipfile.ZipFile, main: str) -> None:
        super().__init__(io.BytesIO(archive.read(main)))
        self._archive, self._root = archive, main.removesuffix("data.pkl")

    def find_class(self, module: str, name: str) -> Any:
        """Map the few names that weights need; the rest are inert."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return _rebuild
        if module == "torch._utils" and name == "_rebuild_parameter":
            return lambda tensor, *_: tensor
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        return _Inert

    def persistent_load(self, pid: Any) -> Tensor:
        """Read one storage as a flat tensor."""
        _, dtype, key, _, count = pid
        raw = bytearray(self._archive.read(f"{self._root}data/{key}"))
        return torch.frombuffer(raw, dtype=dtype, count=count) if count else torch.empty(0)


def _rebuild(storage: Tensor, offset: int, size: Any, stride: Any, *_: Any) -> Tensor:
    return torch.as_strided(storage, tuple(size), tuple(stride), offset)
