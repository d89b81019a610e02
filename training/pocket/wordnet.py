"""Nouns of WordNet 3.0 with their glosses and hypernyms, read from Debian's `wordnet-base`."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path("/usr/share/wordnet")

# lexicographer files whose nouns can be seen: Tops, animal, artifact, body, communication (signs),
# food, group, location, object, person, phenomenon, plant, possession (money), shape, substance
VISIBLE = frozenset({3, 5, 6, 8, 10, 13, 14, 15, 17, 18, 19, 20, 21, 25, 27})


@dataclass(frozen=True)
class Synset:
    """One meaning: its synonyms, its gloss without examples, and what it is a kind of."""

    wnid: str
    file: int
    lemmas: tuple[str, ...]
    gloss: str
    hypernyms: tuple[str, ...]
    instance: bool

    @property
    def visible(self) -> bool:
        """Whether a photograph can show it: a kind of thing, not a named individual."""
        return self.file in VISIBLE and not self.instance


def parse_synset(line: str) -> Synset:
    """Read one line of `data.noun`."""
    fields, _, gloss = line.partition(" | ")
    words = fields.split()
    count = int(words[3], 16)
    lemmas = tuple(words[4 + 2 * i].replace("_", " ") for i in range(count))
    rest = words[4 + 2 * count + 1 :]
    pointers = [(rest[i], f"n{rest[i + 1]}") for i in range(0, len(rest) - 3, 4)]
    parents = tuple(target for symbol, target in pointers if symbol in {"@", "@i"})
    instance = any(symbol == "@i" for symbol, _ in pointers)
    meaning = re.sub(r'[;:]?\s*".*', "", gloss.strip()).strip()
    return Synset(f"n{words[0]}", int(words[1]), lemmas, meaning, parents, instance)


@dataclass(frozen=True)
class WordNet:
    """All noun synsets by id, and the senses of every lemma, most frequent first."""

    synsets: dict[str, Synset]
    senses: dict[str, tuple[str, ...]]

    def ancestors(self, wnid: str) -> tuple[str, ...]:
        """Every synset that `wnid` is a kind of, without itself."""
        found: dict[str, None] = {}
        queue = list(self.synsets[wnid].hypernyms)
        while queue:
            parent = queue.pop()
            if parent not in found:
                found[parent] = None
                queue += self.synsets[parent].hypernyms
        return tuple(found)

    def visible_senses(self, lemma: str) -> list[str]:
        """Senses of a lemma that can be photographed, most frequent first."""
        found = self.senses.get(lemma.lower(), ())
        return [wnid for wnid in found if self.synsets[wnid].visible]

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Direct hyponyms of every synset."""
        below = defaultdict(list)
        for synset in self.synsets.values():
            for parent in synset.hypernyms:
                below[parent].append(synset.wnid)
        return dict(below)


def load_wordnet(folder: Path = FOLDER) -> WordNet:
    """Parse `data.noun` and `index.noun`."""
    synsets = {}
    for line in _lines(folder / "data.noun"):
        synset = parse_synset(line)
        synsets[synset.wnid] = synset
    senses = {}
    for line in _lines(folder / "index.noun"):
        words = line.split()
        count = int(words[2])
        senses[words[0].replace("_", " ")] = tuple(f"n{offset}" for offset in words[-count:])
    return WordNet(synsets, senses)


def _lines(path: Path) -> list[str]:
    """Lines of a database file without the licence text at its head."""
    return [line for line in path.read_text().splitlines() if not line.startswith("  ")]
