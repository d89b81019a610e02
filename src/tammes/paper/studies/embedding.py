"""The class features of several prompts in one plane."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from tammes.errors import DataError


def embed_prompts(
    features: Mapping[str, Float[np.ndarray, "n d"]], seed: int = 0
) -> dict[str, Float[np.ndarray, "n 2"]]:
    """Embed the unit class features of all prompts together by t-SNE, cosine being the distance."""
    from sklearn.manifold import TSNE

    rows = np.concatenate([np.asarray(one, dtype=float) for one in features.values()])
    if len(rows) < 3:
        raise DataError(f"{len(rows)} class features make no picture: t-SNE needs 3 at least")
    perplexity = min(30.0, (len(rows) - 1) / 3)  # t-SNE's own default, or what few points allow
    flat = TSNE(
        perplexity=perplexity, metric="cosine", init="pca", random_state=seed
    ).fit_transform(rows)
    ends = np.cumsum([len(one) for one in features.values()])[:-1]
    return dict(zip(features, np.split(flat, ends), strict=True))
