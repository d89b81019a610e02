"""What happened, in sentences that claim no more than the intervals do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tammes.report.summary import FEW, Comparison, Row
from tammes.statistics import Interval

PAID = "Adaptation paid here"
UNPAID = "Adaptation did not pay here"
MAYBE = "Adaptation may have paid here"
STATIC = "A static prompt is enough here"
UNPROVEN = "Looking at each image did not pay here"
Judgment = Literal["paid", "hurt", "traded", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """The finding, why, and what a careful reader should know beside it."""

    claim: str
    reason: str
    details: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The finding in one sentence."""
        return f"{self.claim}: {self.reason}."

    def __str__(self) -> str:
        return " ".join([self.headline, *self.details])


def judge(row: Row, reference: str) -> Judgment:
    """Judge a method against another by accuracy and ECE together."""
    effects = {row.effect(reference, metric) for metric in ("accuracy", "ece")}
    if {"better", "worse"} <= effects:
        return "traded"
    if "better" in effects:
        return "paid"
    return "hurt" if "worse" in effects else "undecided"


def verdict(comparison: Comparison) -> Verdict:
    """Say whether adaptation earned its cost."""
    tuned = [row for row in comparison.rows if row.role != "zero-shot"]
    if comparison.zero_shot is None:
        return Verdict("Nothing here says whether adaptation paid", "zero-shot was not run")
    if not tuned:
        row = comparison.row(comparison.zero_shot)
        accuracy, ece = (row.metrics[name].value for name in ("accuracy", "ece"))
        return Verdict("Only zero-shot was run", f"accuracy {accuracy:.1%}, ECE {ece:.1%}")
    if max(row.images for row in tuned) < FEW:
        return Verdict(
            "Too few images to tell", f"{comparison.images}, and nothing shows below {FEW}"
        )
    return Verdict(*_finding(tuned, comparison), tuple(_details(tuned, comparison)))


def _finding(tuned: Sequence[Row], comparison: Comparison) -> tuple[str, str]:
    zero_shot = comparison.zero_shot
    assert zero_shot
    kinds = {row.method: judge(row, zero_shot) for row in tuned}
    paid = [row for row in tuned if kinds[row.method] == "paid"]
    if paid:
        return _gain(paid, comparison)
    named = {k: [m for m, kind in kinds.items() if kind == k] for k in kinds.values()}
    if set(named) == {"undecided"} and len(tuned) > 2:
        return UNPAID, f"none of the {len(tuned)} methods can be told apart from {zero_shot}"
    return UNPAID, "; ".join(_losses(named, zero_shot))


def _losses(named: dict[Judgment, list[str]], zero_shot: str) -> list[str]:
    """Name the methods that gained nothing, the clearest findings first."""
    found = []
    if hurt := named.get("hurt"):
        found.append(f"{_list(hurt)} {_verb(hurt, 'does', 'do')} worse than {zero_shot}")
    if traded := named.get("traded"):
        verb = _verb(traded, "trades", "trade")
        found.append(f"{_list(traded)} {verb} accuracy for calibration or the reverse")
    if undecided := named.get("undecided"):
        found.append(f"{_list(undecided)} cannot be told apart from {zero_shot}")
    return found


def _gain(paid: Sequence[Row], comparison: Comparison) -> tuple[str, str]:
    """Give the gain to the test-time steps only where they beat what a static prompt reaches."""
    zero_shot, static = comparison.zero_shot, comparison.static
    assert zero_shot
    sure = [row for row in paid if _survives(row, zero_shot)]
    beyond = [r for r in sure if static is None or judge_or_none(r, static) == "paid"]
    best = min(beyond or sure or paid, key=lambda row: row.metrics["ece"].value)
    change = f"{best.method} {_changes(best, zero_shot)} against {zero_shot}"
    if not sure:
        tried = len(comparison.rows) - 1
        return (
            MAYBE,
            f"{change}, but with {tried} methods tried, one shows that much by chance too often",
        )
    if beyond:
        return PAID, change + (f", and beats {static}" if static else "")
    if best.role == "static":
        return STATIC, f"{change}, without looking at any image"
    return UNPROVEN, f"{change}, but nothing shows that it beats {static}, which looks at none"


def _survives(row: Row, reference: str) -> bool:
    """Ask whether a gain is real even after so many comparisons were made."""
    return "better" in {row.effect(reference, m, corrected=True) for m in ("accuracy", "ece")}


def judge_or_none(row: Row, reference: str) -> Judgment | None:
    """Judge a method against another; a method is not judged against itself."""
    return judge(row, reference) if reference in row.against else None


def _details(tuned: Sequence[Row], comparison: Comparison) -> list[str]:
    zero_shot = comparison.zero_shot
    assert zero_shot
    found = [_stance(comparison.row(zero_shot))]
    changed = [row for row in tuned if judge(row, zero_shot) != "undecided"]
    found += [f"{row.method} {_changes(row, zero_shot)}." for row in changed]
    return [*found, _resolution(tuned, comparison), _chance(comparison.row(zero_shot))]


def _stance(row: Row) -> str:
    """Say on which side of the truth a method's confidence lies."""
    gap = row.metrics["gap"]
    if gap.low <= 0 <= gap.high:
        return f"{row.method}'s mean confidence cannot be told apart from its accuracy."
    side = "over" if gap.value > 0 else "under"
    return f"{row.method} is {side}confident by {points(gap)}."


def _resolution(tuned: Sequence[Row], comparison: Comparison) -> str:
    zero_shot = comparison.zero_shot
    assert zero_shot
    differences = [row.against[zero_shot]["ece"] for row in tuned]
    width = median((d.high - d.low) / 2 for d in differences)
    return (
        f"With {comparison.images}, a difference in ECE below about {100 * width:.1f} points does "
        "not show."
    )


def _chance(row: Row) -> str:
    return (
        f"ECE has a floor of noise: a perfectly calibrated method with {row.method}'s confidences "
        f"would show {row.chance_ece:.1%} here."
    )


def _changes(row: Row, reference: str) -> str:
    """Write the differences that are real."""
    words = {
        ("ece", "better"): "lowers ECE", ("ece", "worse"): "raises ECE",
        ("accuracy", "better"): "raises accuracy", ("accuracy", "worse"): "lowers accuracy",
    }  # fmt: skip
    parts = []
    for metric in ("ece", "accuracy"):
        effect = row.effect(reference, metric)
        if effect in ("better", "worse"):
            parts.append(f"{words[metric, effect]} by {points(row.against[reference][metric])}")
    return " and ".join(parts)


def points(difference: Interval) -> str:
    """Write the size of a difference in percentage points with its range, whichever its sign."""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return f"{100 * abs(difference.value):.1f} points [{100 * low:.1f}, {100 * high:.1f}]"


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
