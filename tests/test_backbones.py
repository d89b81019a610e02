"""One kind of model, found by name, read without running anything."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import KINDS
from tammes import Backbone, Prompt, list_models, load_backbone, tune
from tammes.backbones.checkpoint import dequantize, read_weights
from tammes.backbones.folding import folded
from tammes.backbones.random import random_backbone
from tammes.errors import TammesError, UnknownName, WeightsError
from tammes.method import METHODS

TINY_TEXT = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}


def test_shapes_are_inferred_from_an_openai_checkpoint(tiny: Backbone) -> None:
    assert (tiny.dim, tiny.width, tiny.context_length) == (24, 64, 77)
    assert tiny.preprocessing.size == 32
    assert float(tiny.scale) == pytest.approx(18.17414665222168)
    assert not tiny.sigmoid
    assert tiny.causal is not None
    assert tiny.causal.heads == 1


class Nested(torch.nn.Module):
    """A module whose script has code, buffers and a name the reader cannot know."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, value in weights.items():
            self._put(name.split("."), value)

    def _put(self, path: list[str], value: torch.Tensor) -> None:
        module = self
        for part in path[:-1]:
            if not hasattr(module, part):
                module.add_module(part, torch.nn.Module())
            module = getattr(module, part)
        module.register_parameter(path[-1], torch.nn.Parameter(value, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_every_container_gives_the_same_model(tiny_path, tiny, tmp_path):
    weights = load_file(tiny_path)
    torch.save(weights, tmp_path / "state.pt")
    torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}, tmp_path / "ddp.pth")
    torch.jit.save(torch.jit.script(Nested(weights)), str(tmp_path / "jit.pt"))
    for name in ("state.pt", "ddp.pth", "jit.pt"):
        assert load_backbone(tmp_path / name, device="cpu").fingerprint == tiny.fingerprint, name


def test_a_resnet_is_inferred_too(tmp_path):
    config = {"layers": (1, 1, 1, 1), "width": 8, "image_size": 64}
    model = open_clip.CLIP(
        16, config, {"context_length": 16, "width": 64, "heads": 1, "layers": 1}, quick_gelu=True
    )
    weights = {k: v.contiguous() for k, v in model.state_dict().items()}
    save_file(weights, tmp_path / "rn.safetensors")
    loaded = load_backbone(tmp_path / "rn.safetensors", device="cpu")
    pixels = torch.randn(2, 3, 64, 64)
    expected = model.eval().encode_image(pixels)
    torch.testing.assert_close(loaded.encode_image(pixels), expected.detach())
    assert loaded.preprocessing.size == 64


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_checkpoint_is_never_run(tmp_path, monkeypatch, legacy):
    monkeypatch.chdir(tmp_path)
    context = torch.ones(2, 3)
    torch.save(
        {"state_dict": {"ctx": context}, "scheduler": Bomb()},
        tmp_path / "bomb.pt",
        _use_new_zipfile_serialization=not legacy,
    )
    if legacy:
        with pytest.raises(WeightsError, match="cannot read"):
            read_weights(tmp_path / "bomb.pt")
    else:
        assert torch.equal(read_weights(tmp_path / "bomb.pt")["ctx"], context)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_damaged_checkpoints(tmp_path, tiny_path, suffix):
    path = tmp_path / f"half{suffix}"
    whole = tiny_path.read_bytes()
    if suffix == ".pt":
        torch.save(load_file(tiny_path), tmp_path / "whole.pt")
        whole = (tmp_path / "whole.pt").read_bytes()
    for size in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:size])
        with pytest.raises(WeightsError, match=f"cannot read .*half{suffix}"):
            load_backbone(path)
    path.write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(WeightsError):
        load_backbone(path)


def test_a_checkpoint_of_something_else(tmp_path):
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(WeightsError, match="not an OpenAI-style CLIP checkpoint: it has no tensor"):
        load_backbone(tmp_path / "other.safetensors")


def directory(path: Path, quantized: bool) -> open_clip.CLIP:
    """Write a model in open_clip's own directory format, with int8 token rows or not."""
    config = {
        "embed_dim": 16,
        "vision_cfg": {"layers": 1, "width": 32, "head_width": 16, "patch_size": 16,
                       "image_size": 32},
        "text_cfg": {"context_length": 16, "width": 32, "heads": 2, "layers": 2},
    }  # fmt: skip
    model = open_clip.CLIP(**config)
    weights = {k: v.contiguous() for k, v in model.state_dict().items()}
    if quantized:
        rows = weights.pop("token_embedding.weight")
        scale = rows.abs().amax(1) / 127
        weights["token_embedding.weight"] = (rows / scale[:, None]).round().to(torch.int8)
        weights["token_embedding.weight.scale"] = scale
    path.mkdir()
    save_file(weights, path / "model.safetensors")
    preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear"}
    settings = {"model_cfg": config, "preprocess_cfg": preprocess}
    (path / "open_clip_config.json").write_text(json.dumps(settings))
    return model.eval()


@pytest.mark.parametrize("quantized", [False, True])
def test_open_clip_directories(tmp_path, quantized):
    model = directory(tmp_path / "model", quantized)
    loaded = load_backbone(tmp_path / "model", device="cpu")
    assert loaded.preprocessing.mean == (0.5, 0.5, 0.5)
    assert loaded.preprocessing.interpolation == "bilinear"
    tokens = loaded.tokenize(["a photo of a cat."])
    expected = model.encode_text(tokens).detach()
    ours = loaded.encode_text(tokens, loaded.embed(tokens))
    if quantized:
        assert torch.cosine_similarity(ours, expected) > 0.999
    else:
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


def test_dequantize_is_rowwise():
    rows = torch.tensor([[1, -127], [64, 0]], dtype=torch.int8)
    weights = {"w": rows, "w.scale": torch.tensor([1.0, 0.5]), "b.scale": torch.ones(1)}
    expanded = dequantize(weights)
    assert expanded["w"].tolist() == [[1, -127], [32, 0]]
    assert set(expanded) == {"w", "b.scale"}


def tokenizer_files(path: Path) -> None:
    from transformers import CLIPTokenizer

    words = ["<|startoftext|>", "<|endoftext|>"]
    letters = [chr(c) for c in range(97, 123)] + ["."]
    vocabulary = {t: i for i, t in enumerate([*letters, *(f"{c}</w>" for c in letters), *words])}
    (path / "vocab.json").write_text(json.dumps(vocabulary))
    (path / "merges.txt").write_text("#version: 0.2\n")
    CLIPTokenizer(str(path / "vocab.json"), str(path / "merges.txt")).save_pretrained(path)


@pytest.fixture(params=["clip", "siglip"])
def hf_directory(request, tmp_path) -> Path:
    """A small random CLIPModel or SiglipModel with its tokenizer and image processor."""
    import transformers as hf

    torch.manual_seed(0)
    if request.param == "clip":
        text = {**TINY_TEXT, "vocab_size": 60, "num_attention_heads": 2, "projection_dim": 16}
        text |= {"eos_token_id": 55, "bos_token_id": 54, "pad_token_id": 55}
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
        vision |= {"num_attention_heads": 2, "image_size": 32, "patch_size": 16}
        config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
        model, processor = hf.CLIPModel(config), hf.CLIPImageProcessor()
    else:
        text = {**TINY_TEXT, "vocab_size": 60, "num_attention_heads": 2, "projection_size": 32}
        text |= {"max_position_embeddings": 40, "pad_token_id": 55}
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
        vision |= {"num_attention_heads": 2, "image_size": 32, "patch_size": 16}
        config = hf.SiglipConfig(text_config=text, vision_config=vision)
        model, processor = hf.SiglipModel(config), hf.SiglipImageProcessor()
    folder = tmp_path / request.param
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    tokenizer_files(folder)
    return folder


def test_transformers_directories(hf_directory):
    import transformers as hf

    backbone = load_backbone(hf_directory, device="cpu")
    model = hf.AutoModel.from_pretrained(hf_directory).eval()
    clip = hf_directory.name == "clip"
    assert (backbone.causal is not None) == clip
    assert backbone.sigmoid != clip
    assert backbone.preprocessing.resize == ("shortest" if clip else "squash")
    tokens = backbone.tokenize(["cat", "a dog"])
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        logits = model(input_ids=tokens, pixel_values=pixels).logits_per_image
    text = torch.nn.functional.normalize(
        backbone.encode_text(tokens, backbone.embed(tokens)), dim=-1
    )
    image = torch.nn.functional.normalize(backbone.encode_image(pixels), dim=-1)
    torch.testing.assert_close(backbone.logits(image, text), logits, atol=1e-4, rtol=1e-4)


def test_transformers_models_tune(hf_directory):
    from test_engine import assert_equal_to_specification, views_of

    backbone = load_backbone(hf_directory, device="cpu")
    prompt = Prompt.from_template(backbone, ["cat", "a dog", "tree"], "a photo of a {}.")
    features = views_of(backbone, 2, 8, 0)
    chosen = [METHODS["zero-shot"], METHODS["tpt"], METHODS["c-tpt"], METHODS["a-tpt"]]
    assert_equal_to_specification(backbone, prompt, features, chosen)


def test_embeddings_can_be_swapped_and_differentiated(backbone):
    tokens = backbone.tokenize(["a photo of a cat."])
    embeddings = backbone.embed(tokens).requires_grad_()
    features = backbone.encode_text(tokens, embeddings)
    assert features.shape == (1, backbone.dim)
    (slope,) = torch.autograd.grad(features.sum(), embeddings)
    assert slope[:, 1].abs().max() > 0
    again = backbone.encode_text(tokens, backbone.embed(tokens))
    torch.testing.assert_close(again, features)


def test_fingerprints_are_of_weights_not_names(tiny_path, tmp_path):
    first = load_backbone(tiny_path, device="cpu")
    copy = tmp_path / "another-name.safetensors"
    copy.write_bytes(tiny_path.read_bytes())
    assert load_backbone(copy, device="cpu").fingerprint == first.fingerprint
    assert random_backbone().fingerprint != random_backbone(seed=1).fingerprint
    assert random_backbone(**KINDS["causal"]).fingerprint == random_backbone().fingerprint


def test_unknown_models_come_with_a_suggestion(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'pocket'"):
        load_backbone("poket")
    with pytest.raises(UnknownName, match="Did you mean 'ViT-B-16/openai'"):
        load_backbone("ViT-B-16/opnai")
    with pytest.raises(UnknownName, match="no precision 'fp12'"):
        load_backbone("pocket", precision="fp12")
    with pytest.raises(WeightsError, match="no checkpoint at"):
        load_backbone("nowhere/model.pt")
    with pytest.raises(WeightsError, match="holds neither"):
        load_backbone(tmp_path)
    with pytest.raises(TammesError, match="device"):
        load_backbone("pocket", device="gpu")


def test_the_catalog_names_what_the_paper_uses():
    models = list_models()
    assert models[0] == "pocket"
    assert {"ViT-B-16/openai", "RN50/openai", "ViT-L-14/openai"} <= set(models)


def test_openai_tags_get_their_own_activation():
    for architecture in ("ViT-B-16", "RN50", "ViT-L-14"):
        settings = open_clip.pretrained.get_pretrained_cfg(architecture, "openai")
        assert settings["quick_gelu"], "load_tagged relies on this key"


def test_prompts_tune_on_half_precision(tiny_path):
    half = load_backbone(tiny_path, device="cpu", precision="bf16")
    full = load_backbone(tiny_path, device="cpu")
    names = ["cat", "dog", "sea or lake"]
    features = torch.nn.functional.normalize(torch.randn(8, full.dim), dim=-1)
    one, other = (
        tune(b, Prompt.from_template(b, names), METHODS["a-tpt"], features) for b in (half, full)
    )
    torch.testing.assert_close(one.probs, other.probs, atol=0.1, rtol=0)


def test_the_arranged_image_tower_is_the_same_tower(tiny):
    from tammes.backbones._open_clip import _layer
    from tammes.backbones.vision import fast_vit

    fast = fast_vit(tiny.model.visual, _layer)
    pixels = torch.randn(3, 3, 32, 32, generator=torch.manual_seed(0))
    torch.testing.assert_close(fast(pixels), tiny.encode_image(pixels), atol=1e-5, rtol=1e-5)


def awake(tower: torch.nn.Module) -> torch.nn.Module:
    """Give batch norms statistics that a wrong fold would show."""
    for module in tower.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2)
    return tower.eval()


@pytest.mark.parametrize("architecture", ["tf_efficientnet_lite0", "resnet18"])
def test_folded_norms_change_no_feature(architecture: str) -> None:
    import timm

    tower = awake(timm.create_model(architecture, num_classes=8))
    fast = folded(tower, 64)
    assert fast is not None
    assert any(isinstance(m, torch.nn.BatchNorm2d) for m in tower.modules())
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in fast.modules())
    pixels = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(fast(pixels), tower(pixels), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [63, 64, 160])
def test_padding_as_tensorflow_does_becomes_torchs_own(size: int) -> None:
    import timm
    from timm.layers import Conv2dSame

    tower = awake(timm.create_model("tf_efficientnet_lite0", num_classes=8))
    assert any(isinstance(m, Conv2dSame) for m in tower.modules())
    fast = folded(tower, size)
    assert fast is not None
    assert not any(isinstance(m, Conv2dSame) for m in fast.modules())
    pixels = torch.randn(2, 3, size, size)
    with torch.no_grad():
        torch.testing.assert_close(fast(pixels), tower(pixels), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kernel", [2, 3])
def test_a_tower_that_tells_left_from_right_is_not_mirrored(kernel: int) -> None:
    from timm.layers import Conv2dSame

    last = torch.nn.Linear(64, 8, bias=False)
    last.weight.data *= 1e-4  # small answers are normalized later: direction alone counts
    layers = Conv2dSame(3, 4, kernel, stride=2), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), last
    tower = awake(torch.nn.Sequential(*layers))
    fast = folded(tower, 8)
    assert fast is not None
    assert any(isinstance(m, Conv2dSame) for m in fast.modules())
    pixels = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(fast(pixels), tower(pixels), atol=1e-8, rtol=1e-4)


def test_a_tower_without_norms_to_fold_is_left_alone() -> None:
    assert folded(torch.nn.Conv2d(3, 4, 3), 8) is None


def test_the_pocket_encodes_as_open_clip_does() -> None:
    backbone = load_backbone("pocket", device="cpu")
    pixels = torch.randn(2, 3, 160, 160)
    with torch.no_grad():
        plain = backbone.encode_image_plainly(pixels)
    torch.testing.assert_close(backbone.encode_image(pixels), plain, atol=1e-3, rtol=1e-3)
