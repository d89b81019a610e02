"""How fast the engine is beside the plain loop, measured in one run on one device."""

from tammes.benchmark.plan import Plan, plan_for
from tammes.benchmark.results import Results, read_results
from tammes.benchmark.running import Models, run

__all__ = ["Models", "Plan", "Results", "plan_for", "read_results", "run"]
