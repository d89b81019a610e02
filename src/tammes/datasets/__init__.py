"""Datasets: what they hold, the benchmarks known by name, and readers for what lies on disk."""

from tammes.datasets.catalog import CATALOG, TEMPLATES, CatalogEntry, find_entry
from tammes.datasets.dataset import Dataset, Item
from tammes.datasets.folders import read_image_folder
from tammes.datasets.hub import read_hub
from tammes.datasets.layouts import read_catalog
from tammes.datasets.loading import load_dataset
from tammes.datasets.official import read_aircraft
from tammes.datasets.packs import PackedFile
from tammes.datasets.shards import read_shards
from tammes.datasets.splits import read_coop_split
from tammes.datasets.tables import read_table
from tammes.datasets.zips import read_pack

__all__ = [
    "CATALOG",
    "TEMPLATES",
    "CatalogEntry",
    "Dataset",
    "Item",
    "PackedFile",
    "find_entry",
    "load_dataset",
    "read_aircraft",
    "read_catalog",
    "read_coop_split",
    "read_hub",
    "read_image_folder",
    "read_pack",
    "read_shards",
    "read_table",
]
