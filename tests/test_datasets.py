"""Readers: miniature trees and archives in, the same small set out; every fault named."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tammes.datasets import (
    CATALOG,
    TEMPLATES,
    Dataset,
    Item,
    find_entry,
    load_dataset,
    read_coop_split,
    read_image_folder,
    read_pack,
    read_table,
)
from tammes.errors import DataError, ImageError, UnknownName
from tammes.method import PRESETS

CATS, DOGS = ("cat/1.png", "cat/2.png"), ("dog/1.png", "dog/deep/2.png")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two classes of two images, one of them a folder deeper."""
    root = tmp_path / "pets"
    for shade, file in enumerate((*CATS, *DOGS)):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), (shade * 40, 0, 0)).save(root / file)
    return root


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n")
    return path


def pack(path: Path, tree: Path, labels: str | None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in (*CATS, *DOGS):
            archive.write(tree / file, file)
        if labels is not None:
            archive.writestr("labels.csv", labels)
    return path


def content(dataset: Dataset) -> list[tuple[str, int]]:
    return [(item.id, item.label) for item in dataset.items]


CLASSES = ("cat", "dog")
EXPECTED = [(file, 0) for file in CATS] + [(file, 1) for file in DOGS]
LABELS = "file,label,class_name\n" + "".join(f"{f},{x},{CLASSES[x]}\n" for f, x in EXPECTED)


def test_every_reader_finds_the_same_set(tree: Path, tmp_path: Path):
    split = tmp_path / "split.json.gz"
    rows = [[file, label, CLASSES[label]] for file, label in EXPECTED]
    split.write_bytes(gzip.compress(json.dumps({"train": [], "test": rows}).encode()))
    table(tmp_path / "labels.tsv", *LABELS.replace(",", "\t").split("\n")[:-1])
    table(tmp_path / "labels.csv", *LABELS.split("\n")[:-1])
    found = [
        load_dataset(tree),
        load_dataset(pack(tmp_path / "a.zip", tree, LABELS)),
        load_dataset(pack(tmp_path / "b.zip", tree, None)),
        load_dataset(tmp_path / "labels.csv", tree),
        load_dataset(tmp_path / "labels.tsv", tree),
        load_dataset(split, tree),
    ]
    for dataset in found:
        assert content(dataset) == EXPECTED
        assert dataset.classnames == ("cat", "dog")
    assert len({dataset.task for dataset in found}) == 1


def test_a_pack_gives_the_bytes_of_its_files_to_many_threads(tree: Path, tmp_path: Path):
    dataset = read_pack(pack(tmp_path / "a.zip", tree, LABELS))
    wanted = [(tree / item.id).read_bytes() for item in dataset.items]
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda item: item.open(), dataset.items * 25))
    assert read == wanted * 25


def test_a_pack_can_be_read_in_a_forked_child(tree: Path, tmp_path: Path):
    item = read_pack(pack(tmp_path / "a.zip", tree, LABELS)).items[0]
    expected = item.open()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forking beside other tests' threads
        child = os.fork()
    if child == 0:
        os._exit(0 if item.open() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_damage_inside_a_pack_is_one_bad_image(tree: Path, tmp_path: Path):
    path = pack(tmp_path / "a.zip", tree, LABELS + "cat/gone.png,0,cat\n")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"IDAT") + 6] ^= 0xFF
    path.write_bytes(raw)
    dataset = read_pack(path)
    with pytest.raises(ImageError, match=r"cat/1\.png"):
        dataset.items[0].open()
    with pytest.raises(ImageError, match=r"cat/gone\.png"):
        dataset.items[-1].open()
    assert dataset.items[1].open() == (tree / "cat/2.png").read_bytes()


def test_what_is_no_image_is_left_out_and_listed(tree: Path):
    (tree / "README").write_text("hello")
    (tree / "cat" / "notes.txt").write_text("hello")
    (tree / "annotations").mkdir()
    (tree / "annotations" / "list.mat").write_text("hello")
    (tree / "loose.png").write_bytes((tree / CATS[0]).read_bytes())
    (tree / ".cache").mkdir()
    (tree / ".cache" / "1.png").write_bytes(b"")
    (tree / "cat" / ".hidden.png").write_bytes(b"")
    dataset = read_image_folder(tree)
    assert content(dataset) == EXPECTED
    assert dataset.ignored == ("README", "annotations/list.mat", "cat/notes.txt", "loose.png")


def test_one_part_is_read_of_a_folder_with_parts(tree: Path, tmp_path: Path):
    root = tmp_path / "set"
    for part in ("train", "test"):
        shutil.copytree(tree, root / part)
    (root / "train" / "dog" / "1.png").unlink()
    dataset = load_dataset(root)
    assert (content(dataset), dataset.classnames, dataset.name) == (EXPECTED, CLASSES, "set")
    assert dataset.root == root / "test"
    assert dataset.remarks == (f"the classes are the folders in test/ of {root}",)
    assert len(load_dataset(root, part="train")) == 3
    with pytest.raises(UnknownName, match=r"no part of .*set 'val'.*Known: test, train"):
        load_dataset(root, part="val")
    (root / "train").rename(root / "validation")
    assert len(load_dataset(root, part="val")) == 3
    (root / "test" / "dog").rename(root / "test" / "dogs")
    assert load_dataset(root, classnames={"cat": "a", "dogs": "b"}).classnames == ("a", "b")


def test_folders_above_the_classes_are_no_class(tree: Path, tmp_path: Path):
    shutil.copytree(tree, tmp_path / "set" / "photos" / "images")
    dataset = load_dataset(tmp_path / "set")
    assert (content(dataset), dataset.classnames) == (EXPECTED, CLASSES)
    assert dataset.items[0].open() == dataset.root / "cat/1.png"
    assert "the classes are the folders in photos/images/" in dataset.remarks[0]
    one = load_dataset(tree / "dog", classnames={"deep": "deep"})
    assert one.classnames == ("deep",)  # 'deep/2.png' lies in a class folder
    packed = tmp_path / "photos.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (*CATS, *DOGS):
            archive.write(tree / file, f"photos/test/{file}")
    dataset = load_dataset(packed)
    assert content(dataset) == [(f"photos/test/{file}", label) for file, label in EXPECTED]
    assert (dataset.classnames, dataset.root) == (CLASSES, packed)  # a report opens the archive


def test_a_folder_that_is_called_like_a_benchmark_is_read_as_that(tree: Path, tmp_path: Path):
    for name in ("banded", "zigzagged"):
        (tmp_path / "dtd" / "images" / name).mkdir(parents=True)
    for name in ("banded/banded_0003.jpg", "zigzagged/zigzagged_0001.jpg"):
        Image.new("RGB", (4, 4)).save(tmp_path / "dtd" / "images" / name)
    entry = find_entry("dtd")
    dataset = load_dataset(tmp_path / "dtd")
    assert dataset.classnames == entry.classnames
    assert "read as the benchmark dtd" in dataset.remarks[-1]
    assert len(load_dataset(tmp_path / "dtd", classnames=["x"] * 46 + ["y"]).classnames) == 47
    assert load_dataset(tree).classnames == CLASSES  # called 'pets', and holds other classes
    for called in ("images", "test", "sketch"):
        tree = tree.rename(tree.with_name(called))
        assert load_dataset(tree).classnames == CLASSES


def test_a_link_that_leads_back_is_followed_once(tree: Path):
    (tree / "cat" / "loop").symlink_to(tree)
    (tree / "tiger").symlink_to(tree / "cat")
    ids = [item.id for item in read_image_folder(tree).items]
    assert "tiger/1.png" in ids
    assert len(ids) < 20


def test_class_names_by_folder_set_names_and_label_order(tree: Path):
    dataset = read_image_folder(tree, {"dog": "a good dog", "fox": "fox", "cat": "a cat"})
    assert dataset.classnames == ("a good dog", "fox", "a cat")
    assert content(dataset) == [(f, 2) for f in CATS] + [(f, 0) for f in DOGS]
    assert load_dataset(tree, classnames=["dog", "cat"]).labels == (1, 1, 0, 0)
    with pytest.raises(DataError, match="dog"):
        read_image_folder(tree, {"cat": "a cat"})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([], "no image found"),
        (["notes.txt"], "1 other files"),
        (["1.png", "2.jpg"], "2 images, but none in a class folder"),
    ],
)
def test_a_folder_without_class_folders_says_what_it_holds(
    tmp_path: Path, made: list[str], said: str
):
    root = tmp_path / "empty"
    root.mkdir()
    for file in made:
        (root / file).write_bytes(b"")
    with pytest.raises(DataError, match=said):
        load_dataset(root)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["file,label", "cat/1.png,0"], "labels are numbers: add a column class_name"),
        (
            ["file,label,class_name", "cat/1.png,,cat", "x.png,0,cat"],
            r"1 rows have no label: cat/1\.png",
        ),
        (["file,label,class_name", "cat/1.png,nan,cat"], r"no label: cat/1\.png"),
        (["file,label,class_name", ",0,cat"], "no file name: row 1"),
        (
            ["file,label,class_name", "cat/1.png,-1,cat", "x.png,0,cat"],
            r"none of 0…0: cat/1\.png: -1",
        ),
        (["file,label,class_name", "cat/1.png,0,cat", "x.png,two,dog"], r"x\.png: two"),
        (["file,label,class_name", "cat/1.png,0.5,cat", "x.png,0,cat"], r"cat/1\.png: 0\.5"),
        (["file,label,class_name", "cat/1.png,0,cat", "x.png,0,dog"], "several class names: 0"),
        (["file,label,class_name", "cat/1.png,0,cat", "x.png,2,dog"], "no row names label 1"),
        (
            ["file,label,class_name", "cat/1.png,0,cat", "cat/1.png,0,cat"],
            "more than once: 'cat/1.png'",
        ),
        (["file,label,class_name", "cat/1.png,0,"], "no class name for label 0"),
        (["name,kind", "cat/1.png,0"], r"needs columns file .* has name, kind"),
        (["file,label"], "the table has no rows"),
        (["file,label", "x/1.png,cat", "x/2.png,dog"], "none of the 2 listed images exist"),
    ],
)
def test_a_wrong_table_names_its_rows(tree: Path, rows: list[str], said: str):
    with pytest.raises(DataError, match=said):
        read_table(table(tree / "set.csv", *rows))


def test_labels_may_be_names(tree: Path):
    path = table(tree / "set.csv", "path,label", "dog/1.png,dog", "cat/1.png,cat")
    assert read_table(path).labels == (1, 0)
    assert read_table(path, classnames=["dog", "fox", "cat"]).labels == (0, 2)
    with pytest.raises(DataError, match=r"unknown class name: cat/1\.png: 'cat'"):
        read_table(path, classnames=["dog", "fox"])
    with pytest.raises(DataError, match="several classes are called dog"):
        read_table(path, classnames=["dog", "cat", "dog"])


def test_numeric_labels_index_the_given_class_names(tree: Path):
    path = table(tree / "set.csv", "file,label", "dog/1.png,2", "cat/1.png,0.0")
    assert read_table(path, classnames=["cat", "fox", "dog"]).labels == (2, 0)
    with pytest.raises(DataError, match=r"none of 0…1: dog/1\.png: 2"):
        read_table(path, classnames=["cat", "dog"])


def test_parquet_labels_may_have_gaps_only_as_an_error(tree: Path):
    import pyarrow as pa
    from pyarrow import parquet

    files = [file for file, _ in EXPECTED]
    parquet.write_table(
        pa.table(
            {
                "file": files,
                "label": [0.0, 0.0, 1.0, 1.0],
                "class_name": ["cat", "cat", "dog", "dog"],
            }
        ),
        tree / "set.parquet",
    )
    assert content(load_dataset(tree / "set.parquet")) == EXPECTED
    parquet.write_table(pa.table({"file": files, "label": [0, 0, None, 1]}), tree / "gap.parquet")
    with pytest.raises(DataError, match=r"1 rows have no label: dog/1\.png"):
        load_dataset(tree / "gap.parquet", classnames=["cat", "dog"])


@pytest.mark.parametrize("name", ["set.csv", "set.parquet", "set.zip", "set.json", "set.json.gz"])
def test_a_damaged_file_is_a_data_error_that_names_it(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00garbage\x00")
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        load_dataset(tmp_path / name)


def test_a_split_reads_one_part_with_the_names_of_all(tree: Path, tmp_path: Path):
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"train": [["a.png", 0, "ant"]], "test": [["cat/1.png", 1, "cat"]]}))
    dataset = read_coop_split(path, tree)
    assert dataset.classnames == ("ant", "cat")
    assert content(dataset) == [("cat/1.png", 1)]
    with pytest.raises(UnknownName, match=r"'tset'.*Did you mean 'test'"):
        read_coop_split(path, tree, "tset")
    with pytest.raises(DataError, match=r"none of the 1 listed images exist.*is --root DIR right"):
        read_coop_split(path, tmp_path, "train")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["a", 0, "ant"], ["b", 2, "bee"]], "without a gap"),
        ([["a", 0, "ant"], ["b", 0, "bee"]], "label 0"),
        ([["a", 0]], "is not a split"),
        ({"a": 0}, "is not a split"),
    ],
)
def test_a_wrong_split_is_refused(tmp_path: Path, rows: object, said: str):
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"test": rows}))
    with pytest.raises(DataError, match=said):
        read_coop_split(path, tmp_path)


def test_the_fingerprint_follows_the_images_and_the_task_the_labels(tree: Path):
    first = read_image_folder(tree)
    assert first.fingerprint == read_image_folder(tree).fingerprint
    renamed = read_image_folder(tree, {"dog": "dog", "cat": "cat"})
    assert renamed.fingerprint == first.fingerprint
    assert renamed.task != first.task
    Image.new("RGB", (9, 9)).save(tree / CATS[0])
    assert read_image_folder(tree).fingerprint != first.fingerprint
    (tree / CATS[1]).unlink()
    assert len(read_image_folder(tree)) == 3


def test_a_missing_file_is_listed_so_that_a_run_can_report_it(tree: Path):
    path = table(tree / "set.csv", "file,label", "cat/1.png,cat", "cat/gone.png,cat")
    dataset = read_table(path)
    assert [item.stamp() == "missing" for item in dataset.items] == [False, True]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 40))
def test_a_subset_is_balanced_ordered_and_deterministic(labels: list[int], count: int):
    items = tuple(Item(f"{i}", label, Path(f"{i}")) for i, label in enumerate(labels))
    whole = Dataset("set", tuple("abcde"), items, Path())
    part = whole.subset(count)
    assert len(part) == min(count, len(labels))
    assert list(part.items) == [item for item in items if item in part.items]
    assert part == whole.subset([item.id for item in part.items])
    taken = {label: part.labels.count(label) for label in set(labels)}
    for label, n in taken.items():  # a class falls behind only when it has no more
        assert n == labels.count(label) or n >= max(taken.values()) - 1
        assert list(part.labels).count(label) == n


def test_what_a_mac_adds_to_an_archive_is_no_class(tree: Path, tmp_path: Path):
    path = pack(tmp_path / "pets.zip", tree, None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/cat/._1.png", b"x")
        archive.writestr("cat/._1.png", b"x")
    dataset = load_dataset(path)
    assert (content(dataset), dataset.classnames) == (EXPECTED, CLASSES)


def test_a_subset_names_unknown_ids(tree: Path):
    with pytest.raises(DataError, match=r"no image 'cat/9\.png'"):
        read_image_folder(tree).subset(["cat/9.png"])


@pytest.mark.parametrize(
    ("label", "name", "said"),
    [(2, "a", r"labels must lie in 0…1, found 2 for 'x'"), (0, " ", "no class name for label 0")],
)
def test_a_dataset_checks_itself(label: int, name: str, said: str):
    with pytest.raises(DataError, match=said):
        Dataset("set", (name, "b"), (Item("x", label, Path("x")),), Path())


# The catalog


@pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda e: e.id)
def test_catalog_entries_are_complete(entry):
    assert len(entry.classnames) == entry.classes
    assert entry.folders is None or len(set(entry.folders)) == entry.classes
    assert entry.preset in ("fine-grained", "shift")
    assert "{}" in entry.template
    assert entry.page
    assert entry.license
    for name in (entry.id, *entry.names):
        assert find_entry(name.upper()) is entry


def test_the_catalog_agrees_with_the_published_settings(shared: Path):
    """λ, AugMix, split files and sizes as they were gathered from the paper and the codes."""
    gathered = json.loads((shared / "data" / "datasets.json").read_text())["datasets"]
    assert [about["id"] for about in gathered] == list(CATALOG)
    for about in gathered:
        entry = CATALOG[about["id"]]
        assert entry.classes == about["num_classes"]
        assert entry.images == about.get("paper_test_size")
        assert set(about["paper_names"]) <= set(entry.names)
        if entry.split:
            assert about["coop_split_file"].startswith(entry.split)
        if isinstance(about["lambda_by_method"], dict):
            weights = {name.lower(): w for name, w in about["lambda_by_method"].items()}
            assert PRESETS[entry.preset] == weights
            mixed = {name.lower(): on for name, on in about["augmix_by_method"].items()}
            assert entry.augmix_by_method["a-tpt"] == mixed["a-tpt"] == entry.augmix
            assert set(entry.augmix_by_method.values()) == set(mixed.values())


def test_templates_hold_one_hole_each():
    assert len(TEMPLATES["imagenet-80"]) == len(set(TEMPLATES["imagenet-80"])) == 80
    assert len(TEMPLATES["tip-adapter-7"]) == 7
    assert all(t.count("{}") == 1 for templates in TEMPLATES.values() for t in templates)


def test_an_unknown_spec_names_the_place_and_the_nearest_benchmark(tmp_path: Path):
    with pytest.raises(DataError, match=r"no file or folder /.*ucf10,.*Did you mean 'ucf101'"):
        load_dataset("ucf10")
    with pytest.raises(DataError, match=r"dtd needs the folder.*--root DIR.*DIR/dtd/images"):
        load_dataset("dtd")
    with pytest.raises(DataError, match="no such folder"):
        load_dataset("dtd", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"dtd: nothing found in .*banded/.*\.jpg in dtd/images"):
        load_dataset("dtd", tmp_path)
    (tmp_path / "set.xyz").write_text("")
    with pytest.raises(DataError, match=r"expected a folder or one of \.zip"):
        load_dataset(tmp_path / "set.xyz")


@pytest.mark.parametrize("layout", ["dtd/images", "DTD/images", "images", ""])
@pytest.mark.parametrize("place", ["", "dtd"])
def test_a_split_benchmark_is_found_in_the_usual_layouts(tmp_path: Path, layout: str, place: str):
    (tmp_path / layout / "banded").mkdir(parents=True)
    (tmp_path / place).mkdir(exist_ok=True)
    Image.new("RGB", (4, 4)).save(tmp_path / layout / "banded" / "2.png")
    rows = [["banded/1.png", 0, "banded"], ["banded/2.png", 0, "banded"]]
    split = tmp_path / place / "split_zhou_DescribableTextures.json"
    split.write_text(json.dumps({"test": rows}))
    dataset = load_dataset("DTD", tmp_path)
    assert (dataset.name, len(dataset), dataset.root) == ("dtd", 2, tmp_path / layout)


@pytest.mark.parametrize("folder", ["n01498041", "6", "006", "0006"])
def test_imagenet_v2_folders_are_matched_by_what_they_say(tmp_path: Path, folder: str):
    (tmp_path / "ImageNetV2" / folder).mkdir(parents=True)
    (tmp_path / "ImageNetV2" / folder / "a.jpeg").write_bytes(b"")
    dataset = load_dataset("imagenet_v2", tmp_path / "ImageNetV2")
    assert len(dataset.classnames) == 1000
    assert dataset.classnames[dataset.items[0].label] == "stingray"


def test_imagenet_parts_know_their_own_classes(tmp_path: Path):
    (tmp_path / "imagenet-a" / "n01498041").mkdir(parents=True)
    (tmp_path / "imagenet-a" / "n01498041" / "a.jpg").write_bytes(b"")
    (tmp_path / "imagenet-a" / "README.txt").write_text("")
    dataset = load_dataset("ImageNet-A", tmp_path)
    assert len(dataset.classnames) == 200
    assert dataset.classnames[dataset.items[0].label] == "stingray"
    assert dataset.ignored == ("README.txt",)
    (tmp_path / "imagenet-a" / "n99999999").mkdir()
    (tmp_path / "imagenet-a" / "n99999999" / "a.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="n99999999"):
        load_dataset("ImageNet-A", tmp_path)


PARTS = [("caltech101", "train"), ("caltech101", "test"), ("pets", "test"), ("eurosat", "val")]


@pytest.mark.parametrize(("name", "part"), PARTS)
@pytest.mark.parametrize("as_file", [False, True])
def test_a_benchmark_is_found_as_a_pack(tree: Path, name: str, part: str, as_file: bool):
    entry = find_entry(name)
    rows = [f"cat/1.png,1,{entry.classnames[1]}", f"dog/1.png,0,{entry.classnames[0]}"]
    called = entry.packs.get(part, f"{entry.id}-{part}*.zip").replace("*", "-small")
    path = pack(tree / called, tree, "\n".join(["file,label,class_name", *rows]))
    dataset = load_dataset(name, path if as_file else tree, part=part)
    assert content(dataset) == [("cat/1.png", 1), ("dog/1.png", 0)]
    assert (dataset.name, dataset.classnames) == (entry.id, entry.classnames)


def test_a_pack_in_another_order_or_of_another_name_is_refused(tree: Path):
    rows = "file,label,class_name\ncat/1.png,0,leopard\n"
    first = pack(tree / "caltech101-test-a.zip", tree, rows)
    with pytest.raises(DataError, match="label 0 is 'leopard' and should be 'face'"):
        load_dataset("caltech101", tree)
    first.rename(tree / "caltech101-train-a.zip")
    with pytest.raises(DataError, match=r"no pack caltech101-test\*\.zip.*come from: Caltech"):
        load_dataset("caltech101", tree)
    for name in "ab":
        pack(tree / f"caltech101-test-{name}.zip", tree, rows)
    with pytest.raises(
        DataError, match=r"several candidates .*: caltech101-test-a\.zip, .*name one: --root FILE"
    ):
        load_dataset("caltech101", tree)


@pytest.mark.parametrize("name", ["caltech101", "oxford_pets", "flowers102", "imagenet"])
def test_the_packs_hold_the_published_test_parts(shared: Path, name: str):
    dataset = load_dataset(name, shared / "data" / "images")
    assert len(dataset) == (5000 if name == "imagenet" else find_entry(name).images)
    assert set(dataset.labels) == set(range(find_entry(name).classes))


def test_class_names_can_be_replaced_one_for_one(tree: Path, tmp_path: Path):
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"test": [["cat/1.png", 0, "cat"]]}))
    assert load_dataset(path, tree, classnames=["feline"]).classnames == ("feline",)
    with pytest.raises(DataError, match="has 1 classes, but 2 names were given"):
        load_dataset(path, tree, classnames=["feline", "canine"])
