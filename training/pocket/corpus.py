"""What the text side learns from: class names, WordNet nouns and captions, with their meanings."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from packs import open_pack
from wordnet import Synset, WordNet, load_wordnet

# lexicographer files of nouns that a caption is likely to mean literally:
# animal, artifact, body, food, object, person, plant, possession
TANGIBLE = frozenset({5, 6, 8, 13, 17, 18, 20, 21})
DOMESTIC = "n01317541"
MOST_SENSES = 4
LEAVES_OF_A_NODE = range(2, 261)


@dataclass(frozen=True)
class Name:
    """One string and the meanings it may have, likeliest first (none: read the string alone)."""

    text: str
    meanings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Everything the text side sees; meanings are WordNet ids."""

    wordnet: WordNet
    wnids: tuple[str, ...]  # the 1000 classes of the image teacher
    classes: tuple[tuple[Name, ...], ...]  # per class: the usual name, then its synonyms
    nodes: dict[str, tuple[int, ...]]  # hypernym -> the classes below it
    captions: tuple[str, ...]
    tags: tuple[tuple[int, ...], ...]  # per caption: indices into tag_names
    tag_names: tuple[Name, ...]
    nouns: tuple[Name, ...]  # every visible noun of WordNet

    def names(self) -> list[Name]:
        """Every name once, in a fixed order."""
        grouped = [*self.classes, [n for w in self.nodes for n in self.names_of(w)]]
        flat = [name for group in grouped for name in group]
        return list(dict.fromkeys([*flat, *self.tag_names, *self.nouns]))

    def names_of(self, wnid: str) -> tuple[Name, ...]:
        """Return a synset's lemmas, each with that meaning."""
        return tuple(Name(lemma, (wnid,)) for lemma in self.wordnet.synsets[wnid].lemmas)


def describe(synset: Synset) -> str:
    """Write a meaning as one sentence for the sentence encoders."""
    return f"{', '.join(synset.lemmas[:3])}: {synset.gloss}"


def imagenet_classes(wordnet: WordNet, classnames: Path) -> tuple[list[str], list[list[Name]]]:
    """Return wnids and names of the 1000 classes: the curated name first, then WordNet's lemmas."""
    table = json.loads(classnames.read_text())
    names = []
    for wnid, curated in zip(table["wnids"], table["classnames"], strict=True):
        words = dict.fromkeys([curated, *wordnet.synsets[wnid].lemmas])
        names.append([Name(word, (wnid,)) for word in words])
    for wnid, short in breeds_in_short(wordnet, table["wnids"]).items():
        group = names[table["wnids"].index(wnid)]
        group += [name for name in [Name(short, (wnid,))] if name not in group]
    return table["wnids"], names


def breeds_in_short(wordnet: WordNet, wnids: list[str]) -> dict[str, str]:
    """Find the breeds that people call by their adjective alone, as "a Labrador" or "a Persian".

    The noun left out is the name of something above the class; the adjective belongs to one class.
    """
    found: dict[str, set[str]] = {}
    for wnid in wnids:
        above = {w for up in wordnet.ancestors(wnid) for w in wordnet.synsets[up].lemmas}
        for lemma in wordnet.synsets[wnid].lemmas if DOMESTIC in wordnet.ancestors(wnid) else ():
            adjective, _, noun = lemma.rpartition(" ")
            if adjective[:1].isupper() and noun in above:
                found.setdefault(adjective, set()).add(wnid)
    return {owners.pop(): short for short, owners in found.items() if len(owners) == 1}


def hypernym_nodes(wordnet: WordNet, wnids: list[str]) -> dict[str, tuple[int, ...]]:
    """Return the synsets above 2–260 classes; of several above the same classes, the lowest."""
    below: dict[str, set[int]] = {}
    for index, wnid in enumerate(wnids):
        for parent in wordnet.ancestors(wnid):
            below.setdefault(parent, set()).add(index)
    kept: dict[tuple[int, ...], str] = {}
    for wnid, leaves in below.items():
        group = tuple(sorted(leaves))
        rival = kept.get(group)
        if len(leaves) in LEAVES_OF_A_NODE and (
            rival is None or len(wordnet.ancestors(wnid)) > len(wordnet.ancestors(rival))
        ):
            kept[group] = wnid
    return {wnid: group for group, wnid in kept.items()}


def singular_forms(word: str) -> list[str]:
    """Guess what a plural may be the plural of, the word itself first."""
    rules = (("ies", "y"), ("ves", "f"), ("men", "man"), ("es", ""), ("s", ""))
    return [word] + [word[: -len(end)] + new for end, new in rules if word.endswith(end)]


def caption_nouns(wordnet: WordNet, caption: str) -> list[str]:
    """Find the tangible nouns of a caption, longest match first."""
    words = re.findall(r"[a-z]+", caption.lower())
    found, start = [], 0
    while start < len(words):
        for length in (3, 2, 1):
            *head, last = words[start : start + length] or [""]
            forms = [" ".join([*head, form]) for form in singular_forms(last)]
            hit = next((f for f in forms if len(f) > 2 and _tangible(wordnet, f)), None)
            if hit and len(head) + 1 == length:
                found.append(hit)
                start += length
                break
        else:
            start += 1
    return found


def _tangible(wordnet: WordNet, lemma: str) -> bool:
    senses = wordnet.senses.get(lemma, ())
    return bool(senses) and wordnet.synsets[senses[0]].file in TANGIBLE


def tag_captions(
    wordnet: WordNet, captions: list[str], least: int = 5
) -> tuple[list[tuple[int, ...]], list[Name]]:
    """Tag each caption with its nouns, dropping nouns in fewer than `least` captions."""
    found = [caption_nouns(wordnet, caption) for caption in captions]
    counts = Counter(noun for nouns in found for noun in set(nouns))
    kept = sorted(noun for noun, count in counts.items() if count >= least)
    index = {noun: i for i, noun in enumerate(kept)}
    tags = [tuple(sorted({index[n] for n in nouns if n in index})) for nouns in found]
    return tags, [Name(noun, (wordnet.senses[noun][0],)) for noun in kept]


def visible_nouns(wordnet: WordNet) -> list[Name]:
    """Return every lemma that can be photographed, with its visible senses."""
    spelled = {}
    for synset in wordnet.synsets.values():
        for lemma in synset.lemmas if synset.visible else ():
            spelled.setdefault(lemma.lower(), lemma)
    return [
        Name(spelled[key], tuple(wordnet.visible_senses(key)[:MOST_SENSES]))
        for key in sorted(spelled)
    ]


def build_corpus(data: Path) -> Corpus:
    """Collect the corpus from the data folder (the one that holds `images` and `classnames`)."""
    wordnet = load_wordnet()
    wnids, classes = imagenet_classes(wordnet, data / "classnames" / "imagenet.json")
    captions = [row["caption"] for row in open_pack(data / "images", "coco26k-train-160").rows]
    tags, tag_names = tag_captions(wordnet, captions)
    return Corpus(
        wordnet=wordnet,
        wnids=tuple(wnids),
        classes=tuple(tuple(names) for names in classes),
        nodes=hypernym_nodes(wordnet, wnids),
        captions=tuple(captions),
        tags=tuple(tags),
        tag_names=tuple(tag_names),
        nouns=tuple(visible_nouns(wordnet)),
    )
