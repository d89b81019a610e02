"""A method is a value: how many steps, on what loss, from how many views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tammes.errors import TammesError, UnknownName
from tammes.regularizers import AngularDiversity, Dispersion, Orthogonality, Term


@dataclass(frozen=True)
class Method:
    """Minimize `entropy · H(mean over kept views) + Σ weight · term(classes)` for some steps.

    `temperature` divides the logits after the last step and never touches the tuning.
    """

    terms: tuple[tuple[float, Term], ...] = ()
    steps: int = 1
    entropy: float = 1.0
    lr: float = 5e-3
    weight_decay: float = 0.01
    keep: float = 0.1
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0 or not 0 < self.keep <= 1 or self.temperature <= 0 or self.lr < 0:
            raise TammesError(f"{self}: needs steps ≥ 0, 0 < keep ≤ 1, temperature > 0 and lr ≥ 0")

    @property
    def tunes(self) -> bool:
        """Whether the prompt moves at all."""
        return self.steps > 0

    @property
    def looks_at_views(self) -> bool:
        """Whether the step depends on the image, so that its random views are needed."""
        return self.tunes and self.entropy != 0


# λ of each term, as the authors' scripts set it for fine-grained sets (and ImageNet) and for the
# ImageNet variants.
PRESETS: Mapping[str, Mapping[str, float]] = {
    "fine-grained": {"c-tpt": 50.0, "o-tpt": 18.0, "a-tpt": 80.0},
    "shift": {"c-tpt": 20.0, "o-tpt": 2.0, "a-tpt": 10.0},
}


def methods_with(weights: Mapping[str, float]) -> dict[str, Method]:
    """Build the published methods for one set of weights."""
    c, o, a = (
        (weights["c-tpt"], Dispersion()),
        (weights["o-tpt"], Orthogonality()),
        (weights["a-tpt"], AngularDiversity()),
    )
    return {
        "zero-shot": Method(steps=0),
        "tpt": Method(),
        "c-tpt": Method(terms=(c,)),
        "o-tpt": Method(terms=(o,)),
        "a-tpt": Method(terms=(a,)),
        "c-tpt+a-tpt": Method(terms=(c, a)),
        "a-tpt-released": Method(terms=((-a[0], a[1]),)),  # the released script's sign
        "static-a-tpt": Method(terms=(a,), entropy=0.0),  # what is left without the image
    }


METHODS: Mapping[str, Method] = methods_with(PRESETS["fine-grained"])


def select_methods(
    names: str | Iterable[str] = "all", preset: str = "fine-grained", temperature: float = 1.0
) -> dict[str, Method]:
    """Look methods up by name (`"all"`, `"tpt,a-tpt"` or a list) with the weights of a preset."""
    if preset not in PRESETS:
        raise UnknownName.of("preset", preset, PRESETS)
    known = methods_with(PRESETS[preset])
    wanted = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    chosen = list(known) if wanted == ["all"] else wanted
    for name in chosen:
        if name not in known:
            raise UnknownName.of("method", name, [*known, "all"])
    return {name: replace(known[name], temperature=temperature) for name in chosen}
