"""The DTR paper's ablation grid: which cost, with or without size and staleness.

Fifteen products of the same terms; the sixteenth, no term at all, is h_rand.
"""

from __future__ import annotations

from collections.abc import Callable

from ..jit import inlineable
from ..state import State
from .registry import heuristic
from .terms import class_cost, neighborhood_cost, own_cost, ratio, size, staleness


@inlineable
def _one(state: State, s: int) -> float:
    return 1.0


@inlineable
def _with_neighborhood(state: State, s: int) -> float:
    return own_cost(state, s) + neighborhood_cost(state, s)


@inlineable
def _with_classes(state: State, s: int) -> float:
    return own_cost(state, s) + class_cost(state, s)


COSTS: dict[str, tuple[Callable[[State, int], float], tuple[str, ...]]] = {
    "estar": (_with_neighborhood, ("ancestors", "descendants")),
    "eq": (_with_classes, ("classes",)),
    "local": (own_cost, ()),
    "one": (_one, ()),
}


def _score(
    cost: Callable[[State, int], float], by_size: bool, by_staleness: bool
) -> Callable[[State, int], float]:
    def score(state: State, s: int) -> float:
        denominator = 1.0
        if by_size:
            denominator = size(state, s)
        if by_staleness:
            denominator = denominator * staleness(state, s)
        return ratio(cost(state, s), denominator)

    return score


for _name, (_cost, _needs) in COSTS.items():
    for _by_size in (True, False):
        for _by_staleness in (True, False):
            if _name == "one" and not (_by_size or _by_staleness):
                continue
            _function = _score(_cost, _by_size, _by_staleness)
            _function.__doc__ = (
                f"Cost {_name}{' / m' if _by_size else ''}{' / s' if _by_staleness else ''}: "
                "one point of the ablation grid."
            )
            heuristic(
                f"h_abl_{_name}{'_size' * _by_size}{'_stale' * _by_staleness}",
                needs=_needs,
                monotone=bool(_needs),
                reference="Kirisame et al., ICLR 2021, appendix D.1",
            )(_function)
