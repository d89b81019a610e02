"""Which models are measured, and whether their weights are here: nothing is downloaded unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tammes.backbones import Backbone, load_backbone
from tammes.errors import WeightsError
from tammes.paper.planning import Settings
from tammes.paper.registry import WEIGHTS
from tammes.paper.results import Missing, Subject

POCKET = "pocket"
FILES = (  # what open_clip looks for in a repository, safe formats first
    "open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors",
    "open_clip_pytorch_model.bin",
)  # fmt: skip
OPENAI_CACHE = Path("~/.cache/clip")  # where OpenAI's own package puts its archives


@dataclass(frozen=True)
class Model:
    """A model by the name it was asked for; `backbone` says which published one it is."""

    name: str
    backbone: str = ""

    @property
    def subject(self) -> Subject:
        """What results are filed under: a file by its name alone."""
        path = Path(self.name).expanduser()
        return Subject(path.name if path.exists() else self.name, self.backbone)


def parse_model(text: str) -> Model:
    """Read a model's name; "ViT-B/16=FILE" says that a file holds the published weights."""
    backbone, equals, rest = text.partition("=")
    if equals and backbone in WEIGHTS:
        if not Path(rest).expanduser().exists():
            raise WeightsError(f"--model {text}: no checkpoint at {rest}")
        return Model(rest, backbone)
    return Model(text, next((b for b, name in WEIGHTS.items() if name == text), ""))


def choose_models(names: Sequence[str]) -> list[Model]:
    """Take the models that were asked for, else the paper's as far as they are here, else ours."""
    if names:
        chosen = list(dict.fromkeys(map(parse_model, names)))
        for model in chosen:
            _refuse_unknown(model.name)
        return chosen
    here = [Model(name, backbone) for backbone, name in WEIGHTS.items() if find_weights(name)]
    return here or [Model(POCKET)]


def _refuse_unknown(name: str) -> None:
    """Let loading say at once that a name is nothing: no download is behind one without a slash."""
    if name != POCKET and "/" not in name and not Path(name).expanduser().exists():
        load_backbone(name)


def find_weights(name: str) -> str | None:
    """Say what to load for a name without fetching anything; None where weights are not here."""
    if name == POCKET or Path(name).expanduser().exists() or "/" not in name:
        return name  # loading it says what is wrong, and downloads nothing
    for scheme in ("hf-hub:", "hf:"):
        if name.startswith(scheme):
            return name if _in_hub_cache(name.removeprefix(scheme)) else None
    return _find_tagged(name)


def _find_tagged(name: str) -> str | None:
    from open_clip.pretrained import get_pretrained_cfg

    architecture, _, tag = name.rpartition("/")
    settings = get_pretrained_cfg(architecture, tag)
    if not settings:
        return name  # an unknown name: loading it lists the known ones
    if _in_hub_cache(settings.get("hf_hub", "").strip("/")):
        return name
    archive = OPENAI_CACHE.expanduser() / Path(settings.get("url", "")).name
    return str(archive) if archive.is_file() else None


def _in_hub_cache(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    if repository.count("/") != 1:
        return False
    return any(isinstance(try_to_load_from_cache(repository, file), str) for file in FILES)


def lacking(model: Model, download: bool) -> Missing | None:
    """Say what has to be done for the weights of a model, if anything."""
    if download or find_weights(model.name):
        return None
    return Missing(
        f"the weights {model.name}",
        "they are not on this machine: --download fetches them, or pass "
        f"--model {model.backbone or 'NAME'}=FILE with a checkpoint that you have",
    )


def load_model(model: Model, settings: Settings, precision: str | None) -> Backbone | Missing:
    """Load a model, or say what it lacks; weights that are here and cannot be read are an error."""
    if missing := lacking(model, settings.download):
        return missing
    source = model.name if settings.download else find_weights(model.name)
    return load_backbone(source or model.name, settings.device, precision)
