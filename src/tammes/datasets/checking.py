"""Check a benchmark before anything is computed: what is missing, too many, in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path, PurePosixPath

from tammes.datasets.catalog import CATALOG, CatalogEntry, find_entry, plain
from tammes.datasets.dataset import MISSING, Dataset, Item, name_some
from tammes.datasets.fetching import example
from tammes.datasets.findings import Check, Finding
from tammes.datasets.folders import is_image, walk
from tammes.datasets.layouts import FOLDERS, find_split, read_catalog, subfolders
from tammes.datasets.official import LAYOUT as LISTS
from tammes.datasets.ordering import find_names, find_order, remark_ranks
from tammes.datasets.search import NotHere, Search
from tammes.datasets.splits import listed_paths
from tammes.errors import DataError, ImageError

REFUSED = "do what the message says, then check again"
Progress = Callable[[int, int, str], None]


def check_dataset(
    name: str,
    root: str | Path,
    part: str = "test",
    split: str | Path | None = None,
    classnames: Sequence[str] | None = None,
    *,
    decode: bool = False,
    progress: Progress | None = None,
) -> Check:
    """Compare a benchmark below `root` with what is published about it.

    `classnames` are names that somebody means to use with it. No image is decoded, unless asked
    for. Nothing there to check is an error, not a finding.
    """
    entry = find_entry(name)
    search = Search(entry, Path(root), part, Path(split) if split else None)
    try:
        dataset = read_catalog(name, root, part, split)
    except NotHere as reason:
        return _check_strangers(search, reason)
    except DataError as problem:
        return _nothing(search, Finding("refused", str(problem), _call_it(search) or REFUSED))
    found = [*find_problems(dataset, search)]
    if classnames is not None:
        found += find_names(classnames, entry, "the list of names")
    if decode:
        found += find_unreadable(dataset, progress)
    absent = sum(item.stamp() == MISSING for item in dataset.items)
    return Check(
        entry.id, part, str(dataset.root), dataset.layout, len(dataset), len(dataset) - absent,
        entry.size_of(part), len(set(dataset.labels)), tuple(found), tuple(_notes(dataset, search)),
    )  # fmt: skip


def find_problems(dataset: Dataset, search: Search) -> Iterator[Finding]:
    """Look for all that can be told from lists and file names."""
    entry = search.entry
    missing = [item.id for item in dataset.items if item.stamp() == MISSING]
    return chain(
        find_missing(dataset, missing, search),
        _find_empty(dataset),
        _find_count(dataset, entry, search.part),
        _find_classes(dataset, entry),
        find_names(dataset.classnames, entry, dataset.layout),
        find_order(dataset, entry),
    )


def find_missing(dataset: Dataset, missing: Sequence[str], search: Search) -> Iterator[Finding]:
    """Name the files that a list has and the folder lacks, and what lies there in their place."""
    if not missing:
        return
    what = (
        f"{len(missing):,} of {len(dataset):,} listed files are not in {dataset.root}: "
        f"{name_some(missing, 3)}"
    )
    spare = {_stem(path): path for path in _extra(dataset, search)}
    twins = [(path, spare[_stem(path)]) for path in missing if _stem(path) in spare]
    if twins:
        shown = name_some((f"{other} for {path}" for path, other in twins), 2)
        what += f". For {len(twins):,} of them another file is there: {shown}"
        yield Finding("missing", what, "rename these files as the list has them")
        return
    yield Finding("missing", what, f"unpack the archive again. It comes from: {search.entry.page}")


def find_unreadable(dataset: Dataset, progress: Progress | None = None) -> Iterator[Finding]:
    """Decode every image that is there."""
    here = [item for item in dataset.items if item.stamp() != MISSING]
    reasons = []
    with ThreadPoolExecutor() as pool:
        for count, reason in enumerate(pool.map(_decode, here), 1):
            reasons += [reason] if reason else []
            if progress is not None:
                progress(count, len(here), "decode")
    if reasons:
        what = f"{len(reasons):,} images cannot be read: {name_some(reasons, 3)}"
        yield Finding("unreadable", what, "fetch them anew; a run skips them and says so")


def _decode(item: Item) -> str | None:
    """Say why an image cannot be read."""
    from tammes.images import open_image

    try:
        open_image(item.open())
    except ImageError as problem:
        return f"{item.id} ({problem})"
    return None


def _find_empty(dataset: Dataset) -> Iterator[Finding]:
    """Find files without a byte, which half a download leaves."""
    empty = [item.id for item in dataset.items if item.stamp().startswith("0:")]
    if empty:
        what = f"{len(empty):,} files are empty: {name_some(empty, 3)}"
        yield Finding("empty", what, "fetch them anew")


def _find_count(dataset: Dataset, entry: CatalogEntry, part: str) -> Iterator[Finding]:
    """Compare the number of images with the published one."""
    published = entry.size_of(part)
    gap = len(dataset) - (published or len(dataset))
    if not gap:
        return
    names = dataset.classnames
    counts = sorted((n, names[label]) for label, n in Counter(dataset.labels).items())
    (low, least), (high, most) = counts[0], counts[-1]
    what = (
        f"{len(dataset):,} images, published are {published:,}: {abs(gap):,} too "
        f"{'many' if gap > 0 else 'few'}; from {low:,} ({least!r}) to {high:,} ({most!r}) per class"
    )
    more = "take out what is no part of it, or point --root at the part alone"
    fewer = "finish the download, unless you mean a sample: published numbers are of the whole"
    fewer = entry.remedy if entry.remedy and dataset.layout == LISTS else fewer
    yield Finding("count", what, more if gap > 0 else fewer)


def _find_classes(dataset: Dataset, entry: CatalogEntry) -> Iterator[Finding]:
    """Find classes without an image, and the benchmark that has just the others."""
    names, there = dataset.classnames, set(dataset.labels)
    absent = [names[label] for label in range(len(names)) if label not in there]
    if not absent:
        return
    what = f"{len(absent):,} of {len(names):,} classes have no image: {name_some(absent, 3)}"
    kin = _kin(entry, [entry.folders[label] for label in sorted(there)] if entry.folders else [])
    if kin:
        what += f". The folders are those of {kin}"
        yield Finding("classes", what, f"call it {kin}: against {len(names):,} names it means less")
        return
    yield Finding("classes", what, "finish the download, or unpack it again")


def _kin(entry: CatalogEntry, folders: Sequence[str]) -> str | None:
    """Name another benchmark that has exactly these folders."""
    others = (one for one in CATALOG.values() if one is not entry and one.folders)
    return next((one.id for one in others if sorted(one.folders or ()) == sorted(folders)), None)


def _notes(dataset: Dataset, search: Search) -> Iterator[str]:
    """Say what is in order, and good to know."""
    if dataset.layout == FOLDERS:
        yield from remark_ranks(dataset, search.entry)
    left = [*dataset.ignored, *_extra(dataset, search)]
    if left:
        yield f"{len(left):,} other files are left out: {name_some(left, 3)}"


def _extra(dataset: Dataset, search: Search) -> list[str]:
    """List images that lie among those of a split and are in none of its parts."""
    if not dataset.layout.startswith("split "):
        return []
    known = listed_paths(search.split or find_split(search))
    tops = sorted({path.partition("/")[0] for path in known if "/" in path})
    found = (f"{top}/{path}" for top in tops for path in walk(dataset.root / top))
    flat = (path.name for path in dataset.root.iterdir() if path.is_file())
    here = found if tops else flat
    return sorted(path for path in here if is_image(path) and path not in known)


def _check_strangers(search: Search, reason: NotHere) -> Check:
    """Say what lies where the benchmark should, or that there is nothing to check."""
    for place in _own_places(search):
        images = sorted(path for path in walk(place) if is_image(path))
        if images:
            what = f"{len(images):,} images in {place}, as {name_some(images, 2)}, but {reason}"
            advice = _call_it(search) or _moved(place, images, search) or _resorted(search)
            return _nothing(search, Finding("names", what, advice))
    raise reason


def _call_it(search: Search) -> str:
    """Name the benchmark whose folders these are."""
    kin = (_kin(search.entry, subfolders(base)) for base in search.bases)
    return next((f"the folders are those of {name}: call it {name}" for name in kin if name), "")


def _moved(place: Path, images: Sequence[str], search: Search) -> str:
    """Say which folder stands above the files of the list that should not."""
    try:
        listed = listed_paths(search.split or find_split(search))
    except DataError:
        return ""
    above = (_above(path, listed) for path in images)
    top, first = next((found for found in above if found), ("", ""))
    if top and PurePosixPath(top).name == first:
        return f"move the files of {place}/{top}/{first} one level up"
    return f"move what is in {place}/{top} to {place}" if top else ""


def _above(path: str, listed: set[str]) -> tuple[str, str] | None:
    """Split what stands above a listed path from the first folder of that."""
    parts = PurePosixPath(path).parts
    for skip in range(1, len(parts)):
        if "/".join(parts[skip:]) in listed:
            return "/".join(parts[:skip]), parts[skip]
    return None


def _resorted(search: Search) -> str:
    """Say what makes a copy readable that is called or sorted otherwise."""
    usual = f"a copy is read that has {example(search.entry)}"
    return search.entry.remedy or f"they are called, or sorted, as no known copy: {usual}"


def _own_places(search: Search) -> Iterable[Path]:
    """List the folders that are called after the benchmark."""
    entry = search.entry
    places = [search.root, *(p for p in search.places if p != search.root)]
    return [p for p in places if plain(p.resolve().name) in entry.own_folders and p.is_dir()]


def _nothing(search: Search, finding: Finding) -> Check:
    """Report a benchmark that cannot be read as it lies."""
    entry, part = search.entry, search.part
    where = str(search.root)
    return Check(entry.id, part, where, "", 0, 0, entry.size_of(part), 0, (finding,))


def _stem(path: str) -> str:
    """Write a path without its ending and its case: what copies agree on."""
    return str(PurePosixPath(path).with_suffix("")).casefold()
