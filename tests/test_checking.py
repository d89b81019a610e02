"""`tammes datasets`: what a check says of benchmarks that are whole, damaged or out of order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import URLError

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tammes.cli import app
from tammes.datasets import CATALOG, find_entry, load_dataset
from tammes.datasets.checking import check_dataset
from tammes.datasets.fetching import example, fetch_dataset
from tammes.datasets.findings import Check
from tammes.datasets.presence import find_present
from tammes.errors import DataError, MissingExtra, UnknownName

FETCHED = [entry for entry in CATALOG.values() if entry.torchvision]


def draw(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), (sum(path.name.encode()) % 256, 0, 0)).save(path)


def kinds(found: Check) -> list[str]:
    return [finding.kind for finding in found.findings]


def said(found: Check) -> str:
    return " | ".join(f"{one.kind}: {one.what} -> {one.advice}" for one in found.findings)


def unpacked(name: str) -> dict[str, list[Any]]:
    path = find_entry(name).shipped_split
    assert path is not None
    return json.loads(gzip.decompress(path.read_bytes()))


def whole(name: str, root: Path) -> list[Path]:
    """Lay out every file of a shipped split as links to one picture: no image is decoded."""
    entry = find_entry(name)
    place = root / entry.layouts[0]
    draw(root / "one.png")
    paths = [place / row[0] for rows in unpacked(name).values() for row in rows]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(root / "one.png")
    return paths


def folders(root: Path, names: Iterable[str], each: int = 1) -> Path:
    draw(*(root / name / f"{i}.png" for name in names for i in range(each)))
    return root


def table(path: Path, rows: Iterable[tuple[object, ...]], head: str = "file,label") -> Path:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


# --- whole, and what is missing -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["dtd", "oxford_pets", "caltech101"])
def test_a_whole_benchmark_is_well(name: str, tmp_path: Path):
    whole(name, tmp_path)
    found = check_dataset(name, tmp_path)
    assert (found.findings, found.notes) == ((), ())
    entry = find_entry(name)
    assert found.images == found.present == found.published == entry.images
    assert found.classes == entry.classes


def test_no_image_is_decoded_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole("dtd", tmp_path)
    (tmp_path / "one.png").write_bytes(b"not an image")
    assert not check_dataset("dtd", tmp_path).findings
    counts: list[int] = []
    found = check_dataset("dtd", tmp_path, decode=True, progress=lambda n, *_: counts.append(n))
    assert kinds(found) == ["unreadable"]
    assert "1,692 images cannot be read: banded/" in said(found)
    assert counts == list(range(1, 1693))


def test_cars_that_are_missing_are_named(tmp_path: Path):
    paths = whole("stanford_cars", tmp_path)
    rows = unpacked("stanford_cars")
    gone = sorted(row[0] for row in rows["test"])[100:103]
    for path in gone:
        (tmp_path / "stanford_cars" / path).unlink()
    found = check_dataset("stanford_cars", tmp_path)
    assert kinds(found) == ["missing"]
    assert "3 of 8,041 listed files are not in" in said(found)
    assert all(path in said(found) for path in gone)
    assert "unpack the archive again. It comes from: Stanford Cars" in said(found)
    assert found.present == found.images - 3 == len(rows["test"]) - 3
    assert len(paths) == sum(map(len, rows.values()))


def test_a_copy_with_other_names_is_told_from_a_gap(tmp_path: Path):
    whole("stanford_cars", tmp_path)
    cars = tmp_path / "stanford_cars" / "cars_test"
    for path in sorted(cars.iterdir())[:5]:
        path.rename(path.with_suffix(".JPEG"))
    found = check_dataset("stanford_cars", tmp_path)
    assert "For 5 of them another file is there: cars_test/" in said(found)
    assert "rename these files" in said(found)


def test_a_copy_sorted_otherwise_shows_what_is_there(tmp_path: Path):
    """The usual copies of Stanford Cars: class folders in train and test, or renamed files."""
    draw(*(tmp_path / "stanford_cars" / "car_ims" / f"{i:06d}.jpg" for i in range(4)))
    found = check_dataset("stanford_cars", tmp_path)
    assert kinds(found) == ["names"]
    assert "4 images in" in said(found)
    assert "car_ims/000000.jpg" in said(found)
    assert "no cars_test/" in said(found)
    again = check_dataset("stanford_cars", tmp_path / "stanford_cars")
    assert kinds(again) == ["names"]


def test_a_file_of_another_class_takes_no_ones_place(tmp_path: Path):
    """Every folder of Caltech101 has its image_0001.jpg."""
    paths = whole("caltech101", tmp_path)
    test = {row[0] for row in unpacked("caltech101")["test"]}
    gone = next(p for p in paths if f"{p.parent.name}/{p.name}" in test)
    other = next(p.parent for p in paths if p.parent != gone.parent)
    gone.unlink()
    draw((other / gone.name).with_suffix(".png"))
    found = check_dataset("caltech101", tmp_path)
    assert "unpack the archive again" in said(found)
    assert "another file" not in said(found)


def test_half_a_download_is_told(tmp_path: Path):
    paths = whole("dtd", tmp_path)
    paths[-1].unlink()
    paths[-1].write_bytes(b"")
    found = check_dataset("dtd", tmp_path)
    assert kinds(found) == ["empty"]
    assert "1 files are empty" in said(found)


def test_what_no_part_lists_is_a_note(tmp_path: Path):
    paths = whole("dtd", tmp_path)
    draw(paths[0].with_name("mine.png"))
    (tmp_path / "dtd" / "images" / "banded" / "notes.txt").write_text("hello")
    found = check_dataset("dtd", tmp_path)
    assert not found.findings
    assert found.notes == (f"1 other files are left out: {paths[0].parent.name}/mine.png",)


# --- counts and classes -------------------------------------------------------------------------


def test_counts_are_compared_with_the_paper(tmp_path: Path):
    entry = find_entry("imagenet_v2")
    folders(tmp_path, entry.folders or (), 10)
    assert not check_dataset("imagenet_v2", tmp_path).findings
    (tmp_path / "n01440764" / "3.png").unlink()
    found = check_dataset("imagenet_v2", tmp_path)
    assert kinds(found) == ["count"]
    assert "9,999 images, published are 10,000: 1 too few; from 9 ('tench') to 10" in said(found)
    draw(*(tmp_path / "n01440764" / f"more-{i}.png" for i in range(5)))
    found = check_dataset("imagenet_v2", tmp_path)
    assert "10,004 images, published are 10,000: 4 too many; from 10" in said(found)
    assert "take out" in said(found)


def test_another_benchmarks_folders_are_recognized(tmp_path: Path):
    """The adversarial images against all 1,000 names come to half a percent."""
    folders(tmp_path, find_entry("imagenet_a").folders or ())
    found = check_dataset("imagenet", tmp_path)
    assert kinds(found) == ["count", "classes"]
    assert "800 of 1,000 classes have no image" in said(found)
    assert "The folders are those of imagenet_a -> call it imagenet_a" in said(found)


def test_a_class_without_an_image_is_named(tmp_path: Path):
    folders(tmp_path / "eurosat" / "2750", ["Forest", "River"])
    found = check_dataset("eurosat", tmp_path)
    assert "8 of 10 classes have no image: Annual Crop Land, " in said(found)


# --- order and names ----------------------------------------------------------------------------


def test_folders_sorted_as_text_are_explained(tmp_path: Path):
    """ImageNet-V2's 0 … 999: in the order of their names, 10 comes before 2."""
    folders(tmp_path, map(str, range(1000)), 10)
    found = check_dataset("imagenet_v2", tmp_path)
    assert not found.findings
    (note,) = found.notes
    assert note.startswith("sorted as text (0, 1, 10, 100, …), 988 of 1,000 folders have another")
    assert "'10' comes at 2 and is label 10, 'brambling'" in note
    draw(tmp_path / "999" / "0.png")
    assert load_dataset("imagenet_v2", tmp_path).items[-1].label == 999


def by_rank(root: Path, names: Iterable[str]) -> list[tuple[object, ...]]:
    """Label images as torchvision's ImageFolder does."""
    listed = list(names)
    folders(root, listed)
    return [(f"{name}/0.png", rank) for rank, name in enumerate(sorted(listed))]


@pytest.mark.parametrize(
    ("name", "listed", "expected"),
    [
        ("imagenet_v2", [str(i) for i in range(12)],
         r"10 of 12 images .*: '10/0\.png' should be label 10, 'brambling', and has label 2, .*"
         r"ranks of the folders, sorted as text \(0, 1, 10, 11, …\)"),
        ("isic2018", ["AKIEC", "BCC", "BKL", "DF", "MEL", "NV", "VASC"],
         r"'AKIEC/0\.png' should be label 3, 'actinic keratosis', and has label 0, 'melanoma'"),
        ("covid", ["COVID", "Normal"], r"'COVID/0\.png' should be label 1, 'covid'"),
        ("caltech101", ["face", "leopard", "accordion"],
         r"'accordion/0\.png' should be label 3, 'accordion', and has label 0, 'face'"),
    ],
)  # fmt: skip
def test_labels_by_rank_are_found(
    name: str, listed: list[str], expected: str, tmp_path: Path
) -> None:
    import re

    table(tmp_path / "test.csv", by_rank(tmp_path, listed))
    found = check_dataset(name, tmp_path / "test.csv")
    (order,) = (one for one in found.findings if one.kind == "order")
    assert re.search(expected, order.what), order.what
    assert "ranks of the folders" in order.what
    assert "take the labels away" in order.advice
    fine = [(file, load_label(name, str(file))) for file, _ in by_rank(tmp_path, listed)]
    table(tmp_path / "test.csv", fine)
    assert "order" not in kinds(check_dataset(name, tmp_path / "test.csv"))


def load_label(name: str, file: str) -> int:
    from tammes.datasets.ordering import told_labels

    return told_labels([file], find_entry(name))[file]


def test_files_that_are_called_like_classes_tell_as_well(tmp_path: Path):
    """The pets lie in one folder, and their files are called by breed."""
    rows, names = unpacked("oxford_pets")["test"][::100], find_entry("oxford_pets").classnames
    draw(*(tmp_path / row[0] for row in rows))
    wrong = [(file, (label + 1) % len(names)) for file, label, _ in rows]
    swapped = {"test": [(file, label, names[label]) for file, label in wrong]}
    rest = [["x.jpg", label, name] for label, name in enumerate(names)]
    split = tmp_path / "mine.json"
    split.write_text(json.dumps({**swapped, "train": rest}))
    found = check_dataset("oxford_pets", tmp_path, split=split)
    (order,) = (one for one in found.findings if one.kind == "order")
    assert f"{len(rows)} of {len(rows)} images are labeled otherwise" in order.what


def test_names_of_a_split_are_compared(tmp_path: Path):
    draw(tmp_path / "a.png")
    split = tmp_path / "mine.json"
    names = list(find_entry("eurosat").classnames)
    names[3] = "Motorway"
    rows = [["a.png", i, name] for i, name in enumerate(names)]
    split.write_text(json.dumps({"test": rows[3:4], "train": rows}))
    found = check_dataset("eurosat", tmp_path, split=split)
    wanted = "1 of 10 class names of split mine.json differ: label 3 is 'Motorway', not 'Highway or"
    assert wanted in said(found)
    split.write_text(json.dumps({"test": rows[:1]}))
    wanted = "split mine.json has 1 classes, eurosat has 10"
    assert wanted in said(check_dataset("eurosat", tmp_path, split=split))


def test_another_name_is_no_other_order(tmp_path: Path):
    names = list(find_entry("eurosat").classnames)
    assert names[3].startswith("Highway")
    draw(tmp_path / "Highway" / "Highway_1.png")
    names[3] = "Motorway"
    rows = [["x.jpg", i, name] for i, name in enumerate(names)]
    split = tmp_path / "mine.json"
    split.write_text(json.dumps({"test": [["Highway/Highway_1.png", 3, "Motorway"]], "val": rows}))
    found = kinds(check_dataset("eurosat", tmp_path, split=split))
    assert "names" in found
    assert "order" not in found


def test_names_that_somebody_means_to_use_are_compared(tmp_path: Path):
    whole("eurosat", tmp_path)
    names = find_entry("eurosat").classnames
    assert not check_dataset("eurosat", tmp_path, classnames=names).findings
    ordered = sorted(names, reverse=True)
    found = check_dataset("eurosat", tmp_path, classnames=ordered)
    assert kinds(found) == ["order"]
    assert "the names are right and their order is not" in said(found)
    shuffled = sorted(find_entry("caltech101").classnames)
    whole("caltech101", tmp_path)
    found = check_dataset("caltech101", tmp_path, classnames=shuffled)
    assert "They are sorted as text" in said(found)
    with pytest.raises(DataError, match="its own in another order: label 0 is 'face', not "):
        load_dataset("caltech101", tmp_path, classnames=shuffled)
    with pytest.raises(DataError, match="in another order"):
        load_dataset("eurosat", tmp_path, classnames=ordered)


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("caltech101", lambda names: sorted(n.replace("_", " ") for n in names), "sorted as text"),
        ("eurosat", lambda names: ["Sea and Lake", *names[-2::-1]], ""),
        ("eurosat", lambda names: ["SeaLake", "River", *names[2:8], "Forest", "AnnualCrop"], ""),
        ("dtd", lambda names: [names[i].upper() for i in sorted(range(47), key=str)],
         "numbers sorted as text (0, 1, 10, 11, …)"),
    ],
)  # fmt: skip
def test_another_order_is_one_in_any_spelling(
    name: str, change: Any, rule: str, tmp_path: Path
) -> None:
    whole(name, tmp_path)
    names = change(list(find_entry(name).classnames))
    found = check_dataset(name, tmp_path, classnames=names)
    assert kinds(found)[0] == "order"
    assert rule in said(found)
    with pytest.raises(DataError, match=r"its own in another order: label .*, which is label \d"):
        load_dataset(name, tmp_path, classnames=names)


def test_a_homonym_is_no_other_order(tmp_path: Path):
    """Other lists of ImageNet call the dog Cardigan as the jacket, or two suits maillot."""
    folders(tmp_path / "imagenet" / "images" / "val", ["n01440764"])
    names = list(find_entry("imagenet").classnames)
    assert names[474] == "cardigan"
    names[264] = "Cardigan"
    assert len(load_dataset("imagenet", tmp_path, classnames=names)) == 1
    assert kinds(check_dataset("imagenet", tmp_path, classnames=names))[-1] == "names"


def test_folders_together_tell_more_than_one():
    """SUN397 has offices, and an office cubicle in c/cubicle/office."""
    from tammes.datasets.ordering import told_labels

    names = find_entry("sun397").classnames
    told = told_labels(["c/cubicle/office/sun_1.jpg", "o/office/sun_2.jpg"], find_entry("sun397"))
    assert [names[label] for label in told.values()] == ["office cubicle", "office"]


def test_what_cannot_be_read_is_a_finding_with_its_reason(tmp_path: Path):
    draw(tmp_path / "a.webp")
    table(tmp_path / "dtd-test.csv", [("a.webp", 1, "banded")], "file,label,class_name")
    found = check_dataset("dtd", tmp_path)
    assert kinds(found) == ["refused"]
    assert "label 1 is 'banded' and should be 'blotchy'" in said(found)
    folders(tmp_path / "caltech-101", ["Faces", "unicorn"])
    assert "no class name was given for the folders unicorn" in said(
        check_dataset("caltech101", tmp_path)
    )


def test_sums_of_official_parts_serve_where_nothing_is_published(tmp_path: Path):
    folders(tmp_path / "CRC-VAL-HE-7K", find_entry("kather_colon").folders or ())
    found = check_dataset("kather_colon", tmp_path)
    assert "9 images, published are 7,180" in said(found)
    assert [find_entry("isic2018").size_of(p) for p in ("train", "val", "test", "x")] == [
        10015, 193, 1512, None,
    ]  # fmt: skip
    assert find_entry("covid").size_of("test") is None


# --- nothing there ------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda e: e.id)
def test_nothing_there_is_an_error_that_says_what_was_looked_for(entry: Any, tmp_path: Path):
    with pytest.raises(DataError, match=f"{entry.id}: nothing found in .*The images come from"):
        check_dataset(entry.id, tmp_path)
    with pytest.raises(DataError, match=f"{entry.id}: no such folder: .*gone"):
        check_dataset(entry.id, tmp_path / "gone")
    with pytest.raises(UnknownName, match="no dataset"):
        check_dataset("x" + entry.id + "x", tmp_path)


def test_presence_names_layout_and_place(tmp_path: Path):
    folders(tmp_path / "eurosat" / "2750", ["Forest"], 3)
    table(tmp_path / "dtd-test.csv", [("one.png", 1, "banded")], "file,label,class_name")
    found = find_present(tmp_path)
    assert list(found) == ["dtd", "eurosat"]
    assert (found["eurosat"].images, found["eurosat"].layout) == (3, "class folders")
    assert found["eurosat"].root == str(tmp_path / "eurosat" / "2750")
    assert "should be 'blotchy'" in found["dtd"].problem
    with pytest.raises(DataError, match="no such folder"):
        find_present(tmp_path / "gone")


# --- fetching -----------------------------------------------------------------------------------


class Fake:
    """Stands for a class of torchvision: writes what its archive holds."""

    asked: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def __init__(self, root: str, **options: Any) -> None:
        self.asked.append((root, options))
        whole("dtd", Path(root))


def test_torchvision_fetches_and_the_readers_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("torchvision.datasets.DTD", Fake)
    fetch_dataset("dtd", tmp_path / "new")
    assert Fake.asked == [(str(tmp_path / "new"), {"download": True, "split": "test"})]
    assert not check_dataset("dtd", tmp_path / "new").findings


@pytest.mark.parametrize(
    "entry", [e for e in CATALOG.values() if e.torchvision], ids=lambda e: e.id
)
def test_without_a_network_the_way_by_hand_is_told(
    entry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The class of torchvision is its own; only the network is not there."""

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr("torchvision.datasets.utils._get_redirect_url", lambda url, **_: url)
    with pytest.raises(DataError, match=r"download failed \(URLError: .*no route.*Put its images"):
        fetch_dataset(entry.id, tmp_path)


@pytest.mark.parametrize(
    "entry", [e for e in CATALOG.values() if not e.torchvision], ids=lambda e: e.id
)
def test_what_nothing_fetches_says_where_it_goes(entry: Any, tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot be downloaded for you\. Take it from: ") as told:
        fetch_dataset(entry.id, tmp_path)
    assert entry.page in str(told.value)
    assert example(entry) in str(told.value)
    assert not list(tmp_path.iterdir())


def test_the_place_that_is_named_is_one_that_is_read(tmp_path: Path):
    for entry in CATALOG.values():
        if entry.shipped_split:
            draw(tmp_path / example(entry))
            assert sum(p.images for n, p in find_present(tmp_path).items() if n == entry.id) == 1


def test_a_disk_that_is_full_is_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(root: str, **_: Any) -> None:
        raise OSError(28, "No space left on device", f"{root}/dtd.tar.gz")

    monkeypatch.setattr("torchvision.datasets.DTD", full)
    with pytest.raises(OSError, match="No space left"):
        fetch_dataset("dtd", tmp_path)


# --- the commands -------------------------------------------------------------------------------


def tammes(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["datasets", *map(str, words)], env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


def test_exit_codes_tell_fine_from_found_from_refused(tmp_path: Path):
    paths = whole("dtd", tmp_path)
    shown = tammes("check", "dtd", "--root", tmp_path).stdout
    assert "1,692 of 1,692 images of 47 classes, 1,692 published" in shown
    assert "all is well" in shown
    paths[-1].unlink()
    shown = tammes("check", "dtd", "--root", tmp_path, code=1).stdout
    assert "missing" in shown
    assert "known of dtd: the split's test part" in shown
    told = json.loads(tammes("check", "dtd", "--root", tmp_path, "--json", code=1).stdout)
    assert told["findings"][0]["kind"] == "missing"
    assert set(told["findings"][0]) == {"kind", "what", "advice"}
    assert "nothing found in" in tammes("check", "food101", "--root", tmp_path, code=2).stderr
    assert "Did you mean 'dtd'" in tammes("check", "dtdd", "--root", tmp_path, code=2).stderr
    gone = tmp_path / "names.txt"
    words = ("check", "dtd", "--root", tmp_path, "--classes-file", gone)
    assert "cannot read class names" in tammes(*words, code=2).stderr


def test_the_list_shows_what_is_here(tmp_path: Path):
    folders(tmp_path / "eurosat" / "2750", ["Forest"], 3)
    assert "3 images: class folders" in tammes("list", "--root", tmp_path).stdout
    listed = json.loads(tammes("list", "--root", tmp_path, "--json").stdout)
    assert [record["name"] for record in listed] == list(CATALOG)
    here = {record["name"]: record["here"] for record in listed}
    assert here["eurosat"]["images"] == 3
    assert here["dtd"] is None
    plain = tammes("list").stdout
    assert all(entry.id in plain and entry.license in plain for entry in CATALOG.values())


def test_get_checks_what_it_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.DTD", Fake)
    assert "all is well" in tammes("get", "dtd", "--root", tmp_path).stdout
    assert "is here already" in tammes("get", "dtd", "--root", tmp_path).stderr
    assert "Take it from: Stanford" in tammes("get", "cars", "--root", tmp_path, code=2).stderr
    next((tmp_path / "dtd" / "images" / "banded").iterdir()).unlink()
    cut = tammes("get", "dtd", "--root", tmp_path, code=1).stderr
    assert f"is here in part: to fetch it anew, remove {tmp_path / 'dtd'} and run get again" in cut


def test_downloads_without_the_published_list_say_what_makes_it(tmp_path: Path):
    draw(tmp_path / "SUN397" / "a" / "abbey" / "sun_1.jpg")
    found = check_dataset("sun397", tmp_path)
    assert "put Testing_01.txt of the Partitions" in said(found)
    root = tmp_path / "food-101"
    draw(root / "images" / "baklava" / "7.jpg")
    (root / "meta").mkdir()
    (root / "meta" / "test.txt").write_text("baklava/7\n")
    assert "put split_zhou_Food101.json from CoOp's page" in said(
        check_dataset("food101", tmp_path)
    )


def test_a_download_that_needs_another_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("To download files from GDrive, 'gdown' is required.")

    monkeypatch.setattr("torchvision.datasets.Caltech101", refuse)
    with pytest.raises(MissingExtra, match=r"fetching caltech101 needs gdown: .*tammes\[data\]"):
        fetch_dataset("caltech101", tmp_path)


def test_files_a_level_too_deep_are_told_where_to_go(tmp_path: Path):
    cars = tmp_path / "stanford_cars" / "cars_test"
    draw(cars / "cars_test" / "00001.jpg")
    found = check_dataset("stanford_cars", tmp_path)
    assert f"move the files of {cars}/cars_test one level up" in said(found)
    draw(tmp_path / "dtd" / "x" / "y" / "banded" / "banded_0060.jpg")
    assert f"move what is in {tmp_path}/dtd/x/y to {tmp_path}/dtd" in said(
        check_dataset("dtd", tmp_path)
    )


def test_renditions_are_told_from_the_adversarial_images(tmp_path: Path):
    folders(tmp_path / "imagenet-a", find_entry("imagenet_r").folders or ())
    assert "the folders are those of imagenet_r: call it imagenet_r" in said(
        check_dataset("imagenet_a", tmp_path)
    )
