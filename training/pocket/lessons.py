"""Pack what the GPU needs into two small files: compressed features and tables, and the texts.

Image features are centered, projected on the directions that matter to the data or to the head, and
stored as int8 with a scale per row.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from corpus import Corpus, Name, build_corpus, describe
from jaxtyping import Float, Int
from packs import open_pack
from quantized import Quantized
from safetensors.torch import load_file, save_file
from torch import Tensor

IMAGE_DIRECTIONS = 448
NOTHING = -1
LONGEST = {"names": 14, "meanings": 28, "captions": 26}  # in tokens


@dataclass(frozen=True)
class Projection:
    """Subtract the mean, keep the leading directions."""

    mean: Float[Tensor, " f"]
    basis: Float[Tensor, "f k"]

    def __call__(self, rows: Float[Tensor, "n f"]) -> Float[Tensor, "n k"]:
        """Project rows."""
        return (rows.float() - self.mean) @ self.basis


def image_projection(
    features: Float[Tensor, "n f"], head: Float[Tensor, "c f"], directions: int = IMAGE_DIRECTIONS
) -> Projection:
    """Keep the top eigenvectors of feature covariance plus head covariance, of equal trace."""
    features = features.float()
    data, classes = features.T.cov(), head.T.cov()
    joint = data / data.trace() + classes / classes.trace()
    return Projection(features.mean(dim=0), torch.linalg.eigh(joint)[1].flip(1)[:, :directions])


@dataclass(frozen=True)
class Vocabulary:
    """Row numbers of strings, of meanings and of hypernyms."""

    corpus: Corpus
    strings: dict[str, int]
    meanings: dict[str, int]
    hypernyms: dict[str, int]

    @classmethod
    def of(cls, corpus: Corpus) -> Vocabulary:
        """Number everything in a fixed order."""
        names = corpus.names()
        meanings = (wnid for name in names for wnid in name.meanings)
        tagged = [wnid for name in corpus.tag_names for wnid in name.meanings]
        placed = [*corpus.wnids, *corpus.nodes, *tagged]
        known = (up for wnid in placed for up in (wnid, *corpus.wordnet.ancestors(wnid)))
        return cls(corpus, _numbered(n.text for n in names), _numbered(meanings), _numbered(known))

    def texts(self) -> dict[str, list[str]]:
        """Return the strings that the sentence encoders read, in row order."""
        synsets = self.corpus.wordnet.synsets
        described = [describe(synsets[wnid]) for wnid in self.meanings]
        captions = list(self.corpus.captions)
        return {"names": list(self.strings), "meanings": described, "captions": captions}

    def path(self, wnid: str) -> list[int]:
        """Return the hypernyms that a meaning shares with classes, nodes and tags, and itself."""
        above = (wnid, *self.corpus.wordnet.ancestors(wnid))
        return [self.hypernyms[w] for w in above if w in self.hypernyms]

    def surprise(self) -> Tensor:
        """Return how much a hypernym says: minus the logarithm of its share of visible nouns."""
        wordnet = self.corpus.wordnet
        visible = [s.wnid for s in wordnet.synsets.values() if s.visible]
        counts = Counter(up for wnid in visible for up in (wnid, *wordnet.ancestors(wnid)))
        shares = [max(counts[wnid], 1) / len(visible) for wnid in self.hypernyms]
        return -torch.tensor(shares).clamp_max(1).log()

    def entries(self, groups: Sequence[Sequence[Name]], prefix: str) -> dict[str, Tensor]:
        """Tabulate groups of names that share their first meaning."""
        strings = padded([self.strings[n.text] for n in group] for group in groups)
        meaning = torch.tensor([self.meanings[group[0].meanings[0]] for group in groups])
        return {f"{prefix}.strings": strings, f"{prefix}.meaning": meaning}

    def senses(self) -> Tensor:
        """Return the meanings of every string, likeliest first; a curated class name has one."""
        found = {name.text: name.meanings for name in self.corpus.nouns}
        found |= {n.text: n.meanings for n in self.corpus.names() if n.text not in found}
        found |= {group[0].text: group[0].meanings for group in self.corpus.classes}
        return padded([self.meanings[w] for w in found[text]] for text in self.strings)


def _numbered(items: Iterable[str]) -> dict[str, int]:
    return {item: number for number, item in enumerate(dict.fromkeys(items))}


def padded(lists: Iterable[Sequence[int]], filler: int = NOTHING) -> Int[Tensor, "n k"]:
    """Stack lists of different lengths, filled up with −1."""
    rows = [list(row) for row in lists]
    width = max(len(row) for row in rows)
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows], dtype=torch.int32)


def node_leaves(corpus: Corpus) -> Tensor:
    """Return the 0/1 matrix of hypernym nodes × classes."""
    matrix = torch.zeros(len(corpus.nodes), len(corpus.wnids), dtype=torch.bool)
    for row, leaves in enumerate(corpus.nodes.values()):
        matrix[row, list(leaves)] = True
    return matrix


def image_lessons(images: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compress the image features and move the head into their space."""
    views = {view: images[f"coco26k-train-160.{view}"] for view in ("center", "small", "coarse")}
    views["tiny"] = images["tiny-imagenet-200.center"]
    views["tiny.coarse"] = images["tiny-imagenet-200.coarse"]
    weight = images["head.weight"]
    project = image_projection(torch.cat(list(views.values())), weight)
    tensors = {
        "head.weight": weight @ project.basis,
        "head.bias": images["head.bias"] + weight @ project.mean,
        "images.mean": project.mean,
        "images.basis": project.basis.contiguous(),
    }
    for name, rows in views.items():
        tensors |= Quantized.of(project(rows)).named(f"images.{name}")
    return tensors


def tiny_labels(data: Path, corpus: Corpus) -> dict[str, Tensor]:
    """Return the class of each Tiny-ImageNet picture and whether it is of the training half."""
    files = open_pack(data / "images", "tiny-imagenet-200").files
    index = {wnid: number for number, wnid in enumerate(corpus.wnids)}
    return {
        "tiny.label": torch.tensor([index[file.split("/")[1]] for file in files]),
        "tiny.train": torch.tensor([file.startswith("train/") for file in files]),
    }


def token_tables(texts: dict[str, list[str]], templates: list[str]) -> dict[str, Tensor]:
    """Tokenize once with CLIP's byte pairs; a template is what stands before and after the name."""
    from open_clip.tokenizer import SimpleTokenizer

    encode = SimpleTokenizer().encode
    tables = {
        f"tokens.{kind}": padded((encode(text)[: LONGEST[kind]] for text in lines), filler=0)
        for kind, lines in texts.items()
    }
    for side in (0, 1):
        halves = [encode(template.split("{}")[side]) for template in templates]
        tables[f"tokens.template.{side}"] = padded(halves, filler=0)
    return {name: table.to(torch.uint16) for name, table in tables.items()}


def all_templates(data: Path) -> list[str]:
    """Return the evaluation's template, then the 80 of CLIP's authors."""
    table = json.loads((data / "classnames" / "templates.json").read_text())
    return list(dict.fromkeys(["a photo of a {}.", *table["openai_imagenet_80"]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--features", type=Path, default=Path(".work/pocket/images.safetensors"))
    parser.add_argument("--out", type=Path, default=Path(".carry/pocket/lessons"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    corpus = build_corpus(options.data)
    vocabulary = Vocabulary.of(corpus)
    texts = vocabulary.texts()
    tensors = image_lessons(load_file(options.features)) | tiny_labels(options.data, corpus)
    nodes = [corpus.names_of(wnid) for wnid in corpus.nodes]
    tensors |= vocabulary.entries(corpus.classes, "classes")
    tensors |= vocabulary.entries(nodes, "nodes")
    tensors |= vocabulary.entries([(name,) for name in corpus.tag_names], "tags")
    tensors |= {"nodes.leaves": node_leaves(corpus), "captions.tags": padded(corpus.tags)}
    tensors |= {"names.senses": vocabulary.senses()}
    tensors |= {"meanings.path": padded(map(vocabulary.path, vocabulary.meanings)).short()}
    tensors |= {"hypernyms.surprise": vocabulary.surprise()}
    tensors |= token_tables(texts, all_templates(options.data))
    save_file(tensors, options.out / "lessons.safetensors")
    (options.out / "texts.json.gz").write_bytes(gzip.compress(json.dumps(texts).encode()))


if __name__ == "__main__":
    main()
