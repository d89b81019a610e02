"""The packed lessons as tensors on one device."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from quantized import restore
from safetensors.torch import load_file
from torch import Tensor

NOTHING = -1


@dataclass(frozen=True)
class Entries:
    """Things with several names and one meaning: classes, hypernym nodes or caption tags."""

    strings: Int[Tensor, "n k"]
    meaning: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.meaning)

    def __getitem__(self, rows: Tensor) -> Entries:
        return Entries(self.strings[rows], self.meaning[rows])

    def draw(self, curated: float = 0.5) -> Int[Tensor, " n"]:
        """Choose one name each: the first one, or any."""
        count = (self.strings != NOTHING).sum(dim=1)
        any_name = (torch.rand(len(self), device=count.device) * count).long()
        first = torch.rand(len(self), device=count.device) < curated
        pick = any_name.masked_fill(first, 0)
        return self.strings.gather(1, pick[:, None]).squeeze(1).long()


@dataclass(frozen=True)
class Lessons:
    """Features, tables and tokens of the corpus."""

    tensors: dict[str, Tensor]

    @classmethod
    def load(cls, folder: Path, device: str) -> Lessons:
        """Read `lessons.safetensors`."""
        stored = load_file(folder / "lessons.safetensors")
        return cls({name: tensor.to(device) for name, tensor in stored.items()})

    def entries(self, prefix: str) -> Entries:
        """Return one of the tables `classes`, `nodes`, `tags`."""
        strings, meaning = (self.tensors[f"{prefix}.{field}"] for field in ("strings", "meaning"))
        return Entries(strings, meaning)

    @cached_property
    def images(self) -> dict[str, Float[Tensor, "n f"]]:
        """Image features: three views of the caption pictures, and two of Tiny-ImageNet."""
        views = ("center", "small", "coarse", "tiny", "tiny.coarse")
        return {view: restore(self.tensors, f"images.{view}") for view in views}

    @cached_property
    def head(self) -> tuple[Float[Tensor, "c f"], Float[Tensor, " c"]]:
        """Weight and bias of the image teacher in the space of the packed features."""
        return self.tensors["head.weight"], self.tensors["head.bias"]

    @cached_property
    def leaves(self) -> Bool[Tensor, "h c"]:
        """Which classes are below which hypernym node."""
        return self.tensors["nodes.leaves"].bool()

    @cached_property
    def paths(self) -> Int[Tensor, "m k"]:
        """Known hypernyms of every meaning."""
        return self.tensors["meanings.path"].long()

    def tokens(self, kind: str) -> Int[Tensor, "n l"]:
        """Byte pairs of every text of a kind, without start and end."""
        return self.tensors[f"tokens.{kind}"].int()


def load_texts(folder: Path) -> dict[str, list[str]]:
    """Read the strings that the sentence encoders embed."""
    return json.loads(gzip.decompress((folder / "texts.json.gz").read_bytes()))
