"""Benchmarks as they lie on disk: miniature trees in every accepted layout, whole and damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from PIL import Image

from tammes.datasets import CATALOG, Dataset, find_entry, load_dataset, read_coop_split
from tammes.datasets.presence import find_present
from tammes.datasets.search import NotHere
from tammes.errors import DataError

SPLITS = [entry for entry in CATALOG.values() if entry.split]
SHIPPED = [entry for entry in SPLITS if entry.shipped_split]


def draw(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), (sum(path.name.encode()) % 256, 0, 0)).save(path)


def shown(dataset: Dataset) -> dict[str, str]:
    return {item.id: dataset.classnames[item.label] for item in dataset.items}


def folders(root: Path, names: Iterable[str]) -> None:
    draw(*(root / name / f"{i}.png" for i, name in enumerate(names)))


# CoOp's folders, TPT's flattened ones, torchvision's downloads: a split says what is where


@pytest.mark.parametrize(
    ("entry", "layout"),
    [(entry, layout) for entry in SPLITS for layout in (*entry.layouts, "")],
    ids=lambda value: value if isinstance(value, str) else value.id,
)
def test_a_split_finds_its_images_in_every_layout(entry, layout: str, tmp_path: Path):
    first, second, *_ = entry.classnames
    rows = [["b/2.png", 1, second], ["a/1.png", 0, first], ["b/9.png", 1, second]]
    (tmp_path / layout).mkdir(parents=True, exist_ok=True)
    draw(*(tmp_path / layout / row[0] for row in rows[:2]), tmp_path / layout / "a" / "extra.png")
    (tmp_path / f"{entry.split}").write_text(json.dumps({"train": rows[:1], "test": rows}))
    dataset = load_dataset(entry.names[0], tmp_path)
    assert shown(dataset) == {row[0]: row[2] for row in rows}
    assert [item.stamp() == "missing" for item in dataset.items] == [False, False, True]
    assert dataset.layout == f"split {entry.split}"
    assert dataset.remarks == (f"3 images, but the published test part has {entry.images:,}",)
    assert len(load_dataset(entry.id, tmp_path, part="train")) == 1


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda e: e.id)
def test_a_shipped_split_needs_only_the_images(entry, tmp_path: Path):
    listed = json.loads(_unpacked(entry.shipped_split))
    middle = listed["test"][:: len(listed["test"]) // 100][50]
    path = tmp_path / entry.layouts[0] / middle[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)
    dataset = load_dataset(entry.id, tmp_path)
    assert (len(dataset), dataset.remarks) == (entry.images, ())
    assert dataset.classnames == entry.classnames
    present = [item.id for item in dataset.items if item.stamp() != "missing"]
    assert present == [middle[0]]


def _unpacked(path: Path | None) -> bytes:
    import gzip

    assert path is not None
    return gzip.decompress(path.read_bytes())


def test_seven_splits_ship_with_the_names_and_sizes_of_the_catalog(tmp_path: Path):
    assert len(SHIPPED) == 7
    for entry in SHIPPED:
        parts = json.loads(_unpacked(entry.shipped_split))
        assert len(parts["test"]) == entry.images
        named = {label: name for rows in parts.values() for _, label, name in rows}
        assert tuple(named[i] for i in range(entry.classes)) == entry.classnames
        paths = [path for rows in parts.values() for path, _, _ in rows]
        assert len(set(paths)) == len(paths)


def test_a_split_in_another_order_brings_its_own_names(tmp_path: Path):
    """Labels and names come from one file, so that no order can be wrong."""
    draw(tmp_path / "dtd" / "images" / "a.png")
    split = tmp_path / "mine.json"
    split.write_text(json.dumps({"test": [["a.png", 0, "zigzagged"]]}))
    dataset = load_dataset("dtd", tmp_path, split=split)
    assert shown(dataset) == {"a.png": "zigzagged"}
    assert dataset == read_and_mark(split, tmp_path / "dtd" / "images", dataset)


def read_and_mark(split: Path, root: Path, like: Dataset) -> Dataset:
    from dataclasses import replace

    return replace(
        read_coop_split(split, root, name="dtd"), layout=like.layout, remarks=like.remarks
    )


def test_a_split_that_is_nowhere_is_named_with_what_to_do(tmp_path: Path):
    (tmp_path / "food-101").mkdir()
    with pytest.raises(DataError, match=r"split_zhou_Food101\.json in .*CoOp's page.*--split FILE"):
        load_dataset("food101", tmp_path)
    with pytest.raises(DataError, match=r"cannot read .*gone\.json"):
        load_dataset("dtd", tmp_path, split=tmp_path / "gone.json")


# Lists of the archives themselves


def test_aircraft_reads_the_lists_of_its_archive(tmp_path: Path):
    root = tmp_path / "fgvc-aircraft-2013b" / "data"
    draw(root / "images" / "x.png")
    (root / "variants.txt").write_text("707-320\nF/A-18\n")
    (root / "images_variant_test.txt").write_text("0034309 F/A-18\n1340192 707-320\n")
    Image.new("RGB", (4, 4)).save(root / "images" / "0034309.jpg")
    dataset = load_dataset("aircraft", tmp_path)
    assert shown(dataset) == {"images/0034309.jpg": "F/A-18", "images/1340192.jpg": "707-320"}
    (root / "images_variant_test.txt").write_text("0034309 F/A-19\n")
    with pytest.raises(DataError, match=r"no such class: images/0034309\.jpg: 'F/A-19'"):
        load_dataset("aircraft", tmp_path)


@pytest.mark.parametrize("place", ["food-101", "Food101", ""])
def test_food_reads_the_lists_of_its_archive(tmp_path: Path, place: str):
    root = tmp_path / place
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "test.txt").write_text("baklava/7\napple_pie/3\n")
    (root / "images" / "baklava").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(root / "images" / "baklava" / "7.jpg")
    dataset = load_dataset("food101", tmp_path)
    assert shown(dataset) == {
        "images/baklava/7.jpg": "baklava",
        "images/apple_pie/3.jpg": "apple_pie",
    }
    assert dataset.remarks == ("2 images, but the published test part has 30,300",)


def test_sun_reads_its_first_partition(tmp_path: Path):
    root = tmp_path / "SUN397"
    (root / "a" / "apse" / "indoor").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(root / "a" / "apse" / "indoor" / "sun_1.jpg")
    (root / "Testing_01.txt").write_text("/a/apse/indoor/sun_1.jpg\n/a/abbey/sun_2.jpg\n")
    assert shown(load_dataset("sun397", tmp_path)) == {
        "a/apse/indoor/sun_1.jpg": "indoor apse",
        "a/abbey/sun_2.jpg": "abbey",
    }
    (root / "Testing_01.txt").rename(tmp_path / "Testing_01.txt")
    (tmp_path / "sun397").mkdir()
    root.rename(tmp_path / "sun397" / "SUN397")  # as CoOp has them: the lists beside the images
    (tmp_path / "Testing_01.txt").rename(tmp_path / "sun397" / "Testing_01.txt")
    dataset = load_dataset("sun397", tmp_path)
    assert dataset.items[0].open() == tmp_path / "sun397" / "SUN397" / "a/apse/indoor/sun_1.jpg"
    root = tmp_path / "sun397"
    (root / "Testing_01.txt").write_text("/a/apse/indoor/sun_1.jpg\n/a/apse/outdoor/sun_1.jpg\n")
    with pytest.raises(DataError, match=r"no such class: .*'outdoor apse'"):
        load_dataset("sun397", tmp_path)


# Class folders


@pytest.mark.parametrize(
    ("name", "layout", "folder"),
    [
        ("imagenet", "imagenet/images/val", "n01440764"),
        ("imagenet_a", "imagenet-adversarial/imagenet-a", "n01498041"),
        ("imagenet_a", "imagenet-a", "n01498041"),
        ("imagenet_v2", "imagenetv2/imagenetv2-matched-frequency-format-val", "0"),
        ("imagenet_v2", "imagenetv2-matched-frequency-format-val", "0"),
        ("imagenet_r", "imagenet-rendition/imagenet-r", "n01443537"),
        ("imagenet_r", "imagenet-r", "n01443537"),
        ("imagenet_sketch", "imagenet-sketch/images", "n01440764"),
        ("imagenet_sketch", "ImageNet-Sketch", "n01440764"),
        ("imagenet_sketch", "ImageNet-Sketch/sketch", "n01440764"),
        ("imagenet_sketch", "imagenet-sketch/sketch", "n01440764"),
        ("imagenet_sketch", "sketch", "n01440764"),
        ("eurosat", "eurosat/EuroSAT_RGB", "Forest"),
        ("eurosat", "EuroSAT_RGB", "Forest"),
        ("isic2018", "test", "MEL"),
        ("isic2018", "ISIC2018", "MEL"),
        ("kather_colon", "CRC-VAL-HE-7K", "TUM"),
    ],
)
def test_each_usual_place_is_looked_into(tmp_path: Path, name: str, layout: str, folder: str):
    """Written out: a place that goes from the catalog must fail here."""
    folders(tmp_path / layout, [folder])
    dataset = load_dataset(name, tmp_path)
    assert (dataset.root, len(dataset)) == (tmp_path / layout, 1)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("imagenet", {"n01443537": "goldfish", "n01440764": "tench"}),
        ("imagenet", {"goldfish": "goldfish", "Tench": "tench"}),
        ("imagenet_v2", {"10": "brambling", "2": "great white shark", "0": "tench"}),
        ("imagenet_v2", {"0010": "brambling", "0002": "great white shark"}),
        ("caltech101", {"Faces": "face", "accordion": "accordion", "airplanes": "airplane"}),
        ("eurosat", {"SeaLake": "Sea or Lake", "AnnualCrop": "Annual Crop Land"}),
        ("eurosat", {"sea_or_lake": "Sea or Lake", "Forest": "Forest"}),
        ("stanford_cars", {"Acura RL Sedan 2012": "2012 Acura RL Sedan"}),
        ("fgvc_aircraft", {"F-A-18": "F/A-18", "F-16A-B": "F-16A/B"}),
        ("flowers102", {"1": "pink primrose", "77": "passion flower", "102": "blackberry lily"}),
        ("flowers102", {"0": "pink primrose", "76": "passion flower"}),
        ("ucf101", {"ApplyEyeMakeup": "Apply_Eye_Makeup"}),
        ("kather_colon", {"TUM": "colorectal adenocarcinoma epithelium", "ADI": "adipose tissue"}),
    ],
)
@pytest.mark.parametrize("below", ["", "test"])
def test_class_folders_are_known_by_what_they_are_called(
    tmp_path: Path, name: str, found: dict[str, str], below: str
):
    folders(tmp_path / name / below, found)
    dataset = load_dataset(name, tmp_path / name)
    assert {Path(path).parts[0]: label for path, label in shown(dataset).items()} == found
    assert dataset.classnames == find_entry(name).classnames
    assert dataset.layout == "class folders"


def test_folders_that_are_no_class_are_left_out_or_refused(tmp_path: Path):
    folders(tmp_path, ["Faces", "BACKGROUND_Google", "Faces_easy"])
    dataset = load_dataset("caltech101", tmp_path)
    assert set(shown(dataset).values()) == {"face"}
    assert dataset.ignored == ("BACKGROUND_Google/1.png", "Faces_easy/2.png")
    folders(tmp_path, ["unicorn"])
    with pytest.raises(DataError, match="no class name was given for the folders unicorn"):
        load_dataset("caltech101", tmp_path)


def test_two_folders_of_one_class_are_refused(tmp_path: Path):
    folders(tmp_path, ["face", "Faces"])
    with pytest.raises(DataError, match="'Faces' and 'face' both mean 'face'"):
        load_dataset("caltech101", tmp_path)


def test_numbered_folders_are_not_guessed(tmp_path: Path):
    folders(tmp_path / "flowers-102", ["3", "4"])
    with pytest.raises(DataError, match=r"numbers from 3 to 4: cannot tell .* from 0 or from 1"):
        load_dataset("flowers102", tmp_path / "flowers-102")


def test_what_may_be_of_any_set_is_of_none(tmp_path: Path):
    """Digits in a folder of many sets are no flowers; all numbers of a set may be."""
    folders(tmp_path, map(str, range(12)))
    draw(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("id,prediction\n1,2\n")
    (tmp_path / "test.csv").write_text("file,label\na.png,1\n")
    assert find_present(tmp_path) == {}
    with pytest.raises(DataError, match=r"12 numbered folders in \., .*call the folder above them"):
        load_dataset("imagenet_v2", tmp_path)
    (tmp_path / "dtd").mkdir()
    (tmp_path / "dtd" / "labels.csv").write_text("id,prediction\n1,2\n")
    with pytest.raises(NotHere):
        load_dataset("dtd", tmp_path)
    folders(tmp_path / "x", map(str, range(1, 103)))
    assert len(load_dataset("flowers102", tmp_path / "x")) == 102


def test_one_odd_set_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders(tmp_path / "eurosat" / "2750", ["Forest"])
    (tmp_path / "dtd" / "images").mkdir(parents=True)
    draw(tmp_path / "dtd" / "images" / "a.png")
    split = tmp_path / "dtd" / "split_zhou_DescribableTextures.json"
    split.write_text(json.dumps({"train": [["a.png", 0, "banded"]]}))  # no part of the name test
    found = find_present(tmp_path)
    assert list(found) == ["dtd", "eurosat"]
    assert "no part of" in found["dtd"].problem


def test_a_duplicate_name_says_no_class(tmp_path: Path):
    """ImageNet has two classes called missile: a folder of that name could be either."""
    folders(tmp_path, ["missile", "tench", "goldfish"])
    with pytest.raises(DataError, match="folders missile"):
        load_dataset("imagenet", tmp_path)


def test_another_set_of_wnids_is_noticed(tmp_path: Path):
    folders(tmp_path, find_entry("imagenet_v2").folders[:40])
    with pytest.raises(DataError, match=r"only \d+ of the 40 folders in \. are its classes"):
        load_dataset("imagenet_a", tmp_path)


def test_flat_validation_images_are_noticed(tmp_path: Path):
    draw(*(tmp_path / "ImageNet" / "val" / f"ILSVRC2012_val_{i}.png" for i in range(3)))
    with pytest.raises(DataError, match="3 images in ImageNet/val that lie in no class folder"):
        load_dataset("imagenet", tmp_path)


def test_a_part_is_read_from_its_own_folder(tmp_path: Path):
    folders(tmp_path / "imagenet" / "images" / "val", ["n01440764"])
    folders(tmp_path / "imagenet" / "images" / "train", ["n01443537"])
    assert set(shown(load_dataset("imagenet", tmp_path)).values()) == {"tench"}
    assert set(shown(load_dataset("imagenet", tmp_path, part="train")).values()) == {"goldfish"}
    with pytest.raises(DataError, match=r"nothing found .*: no folder 'trian';"):
        load_dataset("imagenet", tmp_path, part="trian")


def test_masks_and_other_findings_are_no_part_of_covid(tmp_path: Path):
    root = tmp_path / "COVID-19_Radiography_Dataset"
    for finding in ("COVID", "Normal", "Lung_Opacity", "Viral Pneumonia"):
        draw(root / finding / "images" / "1.png", root / finding / "masks" / "1.png")
    dataset = load_dataset("covid", tmp_path)
    assert shown(dataset) == {"COVID/images/1.png": "covid", "Normal/images/1.png": "normal"}
    assert len(dataset.ignored) == 6
