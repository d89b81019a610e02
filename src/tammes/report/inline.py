"""Drawings inside a page: SVG without ballast, whose ids meet no other drawing's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.markers import MarkerStyle

from tammes.plots import style

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
BALLAST = {f"{SVG}metadata", f"{SVG}style"}
REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
NUMBER = re.compile(r"-?\d+\.\d{3,}")


def embed(drawing: str, prefix: str, label: str) -> str:
    """Turn an SVG file into an element that scales with the page and says what it shows."""
    root = ElementTree.fromstring(drawing)
    _shed(root)
    used = {name for e in root.iter() for value in e.attrib.values() for name in _named(value)}
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        element.attrib = {
            key.replace(HREF, "href"): _rename(key, value, prefix)
            for key, value in element.attrib.items()
            if key != "id" or value in used
        }
        element.text, element.tail = (_trim(text) for text in (element.text, element.tail))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _shed(element: ElementTree.Element) -> None:
    """Drop what a page has no use for; a style would reach the whole page."""
    for child in list(element):
        if child.tag in BALLAST:
            element.remove(child)
        else:
            _shed(child)


def _named(value: str) -> list[str]:
    return [inside or whole for inside, whole in REFERENCE.findall(value)]


def _rename(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key in ("d", "points", "transform", "x", "y", "viewBox"):  # 1/100 point is enough to see
        return NUMBER.sub(lambda number: f"{float(number[0]):.2f}", " ".join(value.split()))
    return REFERENCE.sub(lambda m: m[0].replace("#", f"#{prefix}"), value)


def _trim(text: str | None) -> str | None:
    return text if text and text.strip() else None


def mark(method: str) -> str:
    """Draw a method's marker in its color, for legends."""
    look = style(method)
    marker = MarkerStyle(look.marker)
    outline = marker.get_path().transformed(marker.get_transform()).to_polygons()
    shape = np.array(outline[0]) / np.abs(outline[0]).max()
    corners = " ".join(f"{x:.2f},{-y:.2f}" for x, y in shape)
    drawn = f'<polygon points="{corners}" fill="{look.color}"/>'
    return f'<svg class="mark" viewBox="-1.1 -1.1 2.2 2.2" aria-hidden="true">{drawn}</svg>'
