"""Packed benchmarks: shards, Hugging Face datasets and tables, whole and damaged."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tammes.datasets import Dataset, find_entry, load_dataset, read_shards
from tammes.datasets.presence import find_present
from tammes.datasets.shards import has_shards
from tammes.errors import DataError, ImageError, MissingExtra, UnknownName


def picture(shade: int, form: str = "WEBP") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (6, 4), (shade, 0, 0)).save(stream, form)
    return stream.getvalue()


def shard(path: Path, files: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def samples(labels: Sequence[int], start: int = 0, suffix: str = "webp") -> dict[str, bytes]:
    files = {}
    for i, label in enumerate(labels, start):
        files[f"s{i:07d}.{suffix}"] = picture(i)
        files[f"s{i:07d}.cls"] = f"{label}\n".encode()
    return files


def names(folder: Path, *classes: str) -> None:
    (folder / "classnames.txt").write_text("\n".join(classes) + "\n")


def shown(dataset: Dataset) -> dict[str, str]:
    return {item.id: dataset.classnames[item.label] for item in dataset.items}


@pytest.fixture
def wds(tmp_path: Path) -> Path:
    """Three images in two shards, as CLIP_benchmark has them, with a train part."""
    root = tmp_path / "wds_pets"
    shard(root / "test" / "9.tar", samples([1, 0]))
    shard(root / "test" / "10.tar", samples([1], 2, "jpg"))
    shard(root / "train" / "0.tar", samples([0]))
    (root / "test" / "nshards.txt").write_text("2")
    names(root, "cat", "dog")
    return root


def test_shards_are_read_in_place_and_in_order(wds: Path):
    dataset = load_dataset(wds)
    assert shown(dataset) == {
        "test/9.tar/s0000000.webp": "dog",
        "test/9.tar/s0000001.webp": "cat",
        "test/10.tar/s0000002.jpg": "dog",
    }
    assert [item.open() for item in dataset.items] == [picture(i) for i in range(3)]
    assert dataset.name == "wds_pets"
    assert len(load_dataset(wds, part="train")) == 1
    with pytest.raises(UnknownName, match=r"no part of .* 'val'"):
        load_dataset(wds, part="val")


def test_reading_headers_holds_no_image(wds: Path, monkeypatch: pytest.MonkeyPatch):
    """Only labels are read while listing; an image is read when it is wanted."""
    from tammes.datasets.shards import TarredFile

    read, plain = [], TarredFile.read

    def spy(file: TarredFile) -> bytes:
        read.append(file.name)
        return plain(file)

    monkeypatch.setattr(TarredFile, "read", spy)
    dataset = load_dataset(wds)
    assert [Path(name).suffix for name in read] == [".cls"] * 3
    dataset.items[0].open()
    assert read[-1] == "s0000000.webp"


def test_incomplete_shards_are_named(wds: Path):
    (wds / "test" / "nshards.txt").write_text("5")
    with pytest.raises(DataError, match=r"nshards\.txt says 5 shards, 2 are here: finish"):
        load_dataset(wds)
    (wds / "test" / "nshards.txt").unlink()
    path = wds / "test" / "9.tar"
    path.write_bytes(path.read_bytes()[:1600])
    with pytest.raises(DataError, match=r"cannot read the shard .*9\.tar: .*is it complete"):
        load_dataset(wds)


def test_an_image_that_was_cut_off_later_is_one_bad_image(wds: Path):
    dataset = load_dataset(wds)
    path = wds / "test" / "9.tar"
    path.write_bytes(path.read_bytes()[:520])
    with pytest.raises(ImageError, match=r"s0000000\.webp in .*9\.tar: the archive ends"):
        dataset.items[0].open()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.webp": b"x", "a.cls": b"two"}, r"a\.cls holds 'two', which is no label"),
        ({"a.webp": b"x", "a.cls": b"7"}, "labels must lie in 0…1, found 7"),
        ({"a.webp": b"x"}, "no image in"),
        ({}, "no image in"),
    ],
)
def test_wrong_shards_are_refused(tmp_path: Path, files: dict[str, bytes], said: str):
    shard(tmp_path / "0.tar", files)
    names(tmp_path, "cat", "dog")
    with pytest.raises(DataError, match=said):
        load_dataset(tmp_path)


def test_shards_need_names_and_leave_out_what_has_no_label(tmp_path: Path):
    shard(tmp_path / "0.tar", {**samples([0]), "b.webp": b"x", "notes.txt": b"x"})
    with pytest.raises(
        DataError, match=r"no classnames\.txt beside the shards: name the classes: --classes-file"
    ):
        load_dataset(tmp_path)
    dataset = load_dataset(tmp_path, classnames=["cat"])
    assert dataset.ignored == ("0.tar/b.webp", "0.tar/notes.txt")
    shard(tmp_path / "other" / "caltech-101.tar", {})
    with pytest.raises(DataError, match="no image found"):
        load_dataset(tmp_path / "other")


@pytest.mark.parametrize("place", ["wds_vtab-eurosat", "eurosat", ""])
def test_a_benchmark_is_found_as_shards_and_takes_the_catalogs_order(tmp_path: Path, place: str):
    root = tmp_path / place
    shard(root / "test" / "0.tar", samples([0, 1]))
    names(root, "sea or lake", "Forest")
    dataset = load_dataset("eurosat", tmp_path)
    assert list(shown(dataset).values()) == ["Sea or Lake", "Forest"]
    assert dataset.classnames == find_entry("eurosat").classnames
    assert dataset.remarks == ("2 images, but the published test part has 8,100",)


def test_classes_that_are_left_out_go_and_unknown_ones_keep_their_names(tmp_path: Path):
    shard(tmp_path / "test" / "0.tar", samples([0, 1, 1]))
    names(tmp_path, "BACKGROUND_Google", "Faces")
    dataset = load_dataset("caltech101", tmp_path)
    assert list(shown(dataset).values()) == ["face", "face"]
    names(tmp_path, "unicorn", "Faces")
    dataset = load_dataset("caltech101", tmp_path)
    assert dataset.classnames == ("unicorn", "Faces")
    assert "no such class in the catalog: unicorn" in dataset.remarks[0]


EUROSAT = (
    "annual crop land", "forest", "brushland or shrubland", "highway or road",
    "industrial buildings or commercial buildings", "pasture land", "permanent crop land",
    "residential buildings or homes or apartments", "river", "lake or sea",
)  # fmt: skip


def test_the_names_that_clip_benchmark_gives_are_known(tmp_path: Path):
    entry = find_entry("eurosat")
    shard(tmp_path / "wds_vtab-eurosat" / "test" / "0.tar", samples(range(10)))
    names(tmp_path / "wds_vtab-eurosat", *EUROSAT)
    dataset = load_dataset("eurosat", tmp_path)
    assert (dataset.classnames, dataset.labels) == (entry.classnames, tuple(range(10)))
    root = tmp_path / "wds_vtab-caltech101"
    theirs = {"background": None, "off-center face": "face", "centered face": None,
              "side of a car": "car_side", "head of a  crocodile": "crocodile_head",
              "snoopy (cartoon beagle)": "snoopy", "yin and yang symbol": "yin_yang"}  # fmt: skip
    shard(root / "test" / "0.tar", samples(range(len(theirs))))
    names(root, *theirs)
    dataset = load_dataset("caltech101", tmp_path)
    assert dataset.classnames == find_entry("caltech101").classnames
    assert list(shown(dataset).values()) == [name for name in theirs.values() if name]


def test_labels_of_one_order_need_no_equal_names(tmp_path: Path):
    own = list(find_entry("flowers102").classnames)
    own[0] = "a flower of another name"
    shard(tmp_path / "wds_vtab-flowers" / "test" / "0.tar", samples([0, 1]))
    names(tmp_path / "wds_vtab-flowers", *own)
    dataset = load_dataset("flowers102", tmp_path)
    assert dataset.classnames == find_entry("flowers102").classnames
    own[1:4] = own[3], own[1], own[2]  # now the rest is moved: their names must stay theirs
    names(tmp_path / "wds_vtab-flowers", *own)
    assert load_dataset("flowers102", tmp_path).classnames == tuple(own)


def test_numbers_for_names_are_labels(tmp_path: Path):
    """ImageNet-V2 in shards whose names are its folders, sorted as text."""
    own = sorted(map(str, range(1000)))
    shard(tmp_path / "wds_imagenetv2" / "0.tar", samples([2, 3]))
    names(tmp_path / "wds_imagenetv2", *own)
    assert list(shown(load_dataset("imagenet_v2", tmp_path)).values()) == [
        "brambling",
        "black swan",
    ]
    assert own[2:4] == ["10", "100"]


def test_shards_among_many_sets_are_of_the_one_whose_classes_they_hold(tmp_path: Path):
    shard(tmp_path / "0.tar", samples([0, 1]))
    names(tmp_path, "sea or lake", "Forest")
    assert list(find_present(tmp_path)) == ["eurosat"]


# Tables


@pytest.mark.parametrize("called", ["dtd-test.csv", "DTD/test.csv", "dtd/images/labels.csv"])
def test_a_benchmark_is_found_as_a_table(tmp_path: Path, called: str):
    path = tmp_path / called
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "a.webp").write_bytes(picture(1))
    path.write_text("file,label\na.webp,1\n")
    assert shown(load_dataset("dtd", tmp_path)) == {"a.webp": "blotchy"}
    path.write_text("file,class_name\na.webp,banded\n")
    assert shown(load_dataset("dtd", path)) == {"a.webp": "banded"}
    path.write_text("file,label,class_name\na.webp,1,banded\n")
    with pytest.raises(DataError, match=r"label 1 is 'banded' and should be 'blotchy'.*Without"):
        load_dataset("dtd", tmp_path)
    path.write_text("file,label,class_name\na.webp,1.0,banded\n")  # as pandas writes a column
    with pytest.raises(DataError, match="label 1 is 'banded'"):
        load_dataset("dtd", path)


# Hugging Face


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("datasets", reason="needs the extra data")


def saved(library: Any, path: Path, classes: Sequence[str] | None = ("cat", "dog")) -> Path:
    kind = library.ClassLabel(names=list(classes)) if classes else library.Value("int64")
    features = library.Features({"image": library.Image(), "label": kind})
    rows = {"image": [{"bytes": picture(i), "path": None} for i in (1, 2)], "label": [1, 0]}
    part = library.Dataset.from_dict(rows, features=features)
    library.DatasetDict({"test": part, "train": part.select([0])}).save_to_disk(str(path))
    return path


def test_a_saved_dataset_is_read_row_by_row(library: Any, tmp_path: Path):
    path = saved(library, tmp_path / "pets")
    dataset = load_dataset(path)
    assert shown(dataset) == {"test/0": "dog", "test/1": "cat"}
    assert [item.open() for item in dataset.items] == [picture(1), picture(2)]
    assert dataset.fingerprint == load_dataset(path).fingerprint
    assert len(load_dataset(path, part="train")) == 1
    with pytest.raises(UnknownName, match="'val'"):
        load_dataset(path, part="val")


def test_a_saved_dataset_with_several_labels_takes_the_usual_one(library: Any, tmp_path: Path):
    kinds = {"coarse": ["animal", "thing"], "label": ["cat", "dog"]}
    features = library.Features(
        {"image": library.Image(), **{n: library.ClassLabel(names=k) for n, k in kinds.items()}}
    )
    rows = {"image": [{"bytes": picture(1), "path": None}], "coarse": [0], "label": [1]}
    part = library.Dataset.from_dict(rows, features=features)
    library.DatasetDict({"test": part}).save_to_disk(str(tmp_path / "pets"))
    assert shown(load_dataset(tmp_path / "pets")) == {"test/0": "dog"}


def test_secret_labels_are_told(library: Any, tmp_path: Path):
    features = library.Features({"image": library.Image(), "cls": library.Value("int64")})
    rows = {"image": [{"bytes": picture(1), "path": None}], "cls": [-1]}
    part = library.Dataset.from_dict(rows, features=features)
    library.DatasetDict({"test": part}).save_to_disk(str(tmp_path / "secret"))
    with pytest.raises(DataError, match=r"row 0 has the label -1, none of 0…1: .*another --part"):
        load_dataset(tmp_path / "secret", classnames=["cat", "dog"])


def test_a_saved_benchmark_takes_the_catalogs_order(library: Any, tmp_path: Path):
    saved(library, tmp_path / "eurosat", ["SeaLake", "Forest"])
    dataset = load_dataset("eurosat", tmp_path)
    assert list(shown(dataset).values()) == ["Forest", "Sea or Lake"]


def test_numbers_without_names_need_class_names(library: Any, tmp_path: Path):
    path = saved(library, tmp_path / "pets", None)
    with pytest.raises(DataError, match="numbers without names: name the classes: --classes-file"):
        load_dataset(path)
    assert shown(load_dataset(path, classnames=["a", "b"])) == {"test/0": "b", "test/1": "a"}


def test_a_damaged_saved_dataset_is_a_data_error(library: Any, tmp_path: Path):
    (tmp_path / "dataset_dict.json").write_text("{")
    with pytest.raises(DataError, match="cannot read the dataset"):
        load_dataset(tmp_path)


def test_the_hub_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "dataset_dict.json").write_text("{}")
    for spec in ("hf:somebody/pets", tmp_path):
        with pytest.raises(MissingExtra, match=r"tammes\[data\]"):
            load_dataset(spec)


def test_shards_of_another_order_keep_label_and_name_together(tmp_path: Path):
    shard(tmp_path / "0.tar", samples([1, 0]))
    names(tmp_path, "cat", "dog")
    assert list(shown(read_shards(tmp_path)).values()) == ["dog", "cat"]
    assert list(shown(read_shards(tmp_path, classnames=["a", "b"])).values()) == ["b", "a"]


def test_an_archive_that_was_not_unpacked_is_no_shard(tmp_path: Path):
    """CoOp puts ImageNet's classnames.txt beside the archive of its images."""
    names(tmp_path, "cat", "dog")
    shard(tmp_path / "ILSVRC2012_img_val.tar", {f"{i}.JPEG": picture(i) for i in range(3)})
    assert not has_shards(tmp_path)
    shard(tmp_path / "part-a.tar", samples([1]))
    assert len(load_dataset(tmp_path)) == 1


def test_what_the_hub_refuses_is_a_data_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import sys
    from types import SimpleNamespace

    asked = []

    def refuse(*named: str | None, split: str) -> None:
        asked.append((*named, split))
        raise ConnectionError("no route to the hub")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=refuse))
    said = "cannot read the dataset hf:somebody/pets:small: ConnectionError: no route"
    with pytest.raises(DataError, match=said):
        load_dataset("hf:somebody/pets:small", part="validation")
    with pytest.raises(DataError, match=said):
        load_dataset("dtd", "hf:somebody/pets:small")
    assert asked == [("somebody/pets", "small", p) for p in ("validation", "test")]
