"""The paper as one command: the published tables and figures beside measured ones."""

from tammes.paper.published import PublishedCell, published
from tammes.paper.results import COCOOP, COOP, Found, Need, Results, Subject

__all__ = ["COCOOP", "COOP", "Found", "Need", "PublishedCell", "Results", "Subject", "published"]
