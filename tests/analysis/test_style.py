"""Lines can be told apart, in color and without."""

from __future__ import annotations

from itertools import combinations

import pytest
from rematsim.analysis.style import (
    COLORS,
    KNOWN,
    MARKERS,
    METHODS,
    PLACES,
    STATUS_MARKS,
    line_styles,
    style_number,
)
from rematsim.heuristics import names as heuristics
from rematsim.heuristics.static import names as planners


@pytest.mark.parametrize("count", [1, 8, 16, 24])
def test_every_line_of_a_panel_has_a_marker_of_its_own(count):
    styles = line_styles(f"method {number}" for number in range(count))
    assert len({(style.marker, style.fill) for style in styles.values()}) == count


def test_eight_unknown_lines_have_eight_colors():
    styles = line_styles(f"method {number}" for number in range(8))
    assert len({style.color for style in styles.values()}) == 8


def test_sixteen_unknown_lines_have_sixteen_colors():
    styles = line_styles(f"method {number}" for number in range(16))
    assert len({style.color for style in styles.values()}) == len(COLORS) == 16


def test_every_method_of_ours_has_a_style_of_its_own_in_every_figure():
    assert sorted(METHODS) == sorted([*heuristics(), *planners()])
    everything = line_styles(METHODS)
    for name in METHODS:
        assert line_styles(["mine", name])[name] == everything[name]
    for group in (planners(), [name for name in heuristics() if "_abl_" not in name]):
        marks = {(everything[name].marker, everything[name].fill) for name in group}
        assert len(marks) == len(group)


def test_another_s_method_looks_alike_in_all_figures_of_a_table():
    table = [f"mine.py:f{number}" for number in range(20)]
    whole = line_styles(table, table=table)
    for name in table:
        assert line_styles([name], table=table)[name] == whole[name]


def test_no_line_looks_like_a_failure():
    failures = {mark for mark, _ in STATUS_MARKS.values()}
    assert not failures.intersection(shape for shape, fill in MARKERS if fill == "white")


def test_no_two_styles_are_alike():
    looks = [
        (style.color, style.marker, style.fill, style.dash)
        for style in (style_number(place, "") for place in range(8 * PLACES))
    ]
    assert len(set(looks)) == len(looks)
    names = [*KNOWN, *(f"method {number}" for number in range(40))]
    styles = line_styles(names)
    assert all(one != other for one, other in combinations(styles.values(), 2))


def test_the_same_names_get_the_same_styles_in_any_order():
    names = ["zeta", "h_LRU", "alpha", "h_DTR"]
    assert line_styles(names) == line_styles(reversed(names))


def test_a_known_method_looks_alike_in_every_figure():
    alone = line_styles(["h_LRU"])["h_LRU"]
    crowd = line_styles([f"method {number}" for number in range(12)] + ["h_LRU", "h_DTR"])
    assert crowd["h_LRU"] == alone
    banished = line_styles(["h_LRU, banish"])["h_LRU, banish"]
    assert (banished.color, banished.marker) == (alone.color, alone.marker)


def test_lines_of_planners_are_broken_and_all_others_solid():
    """So a method has the same line in every figure, whatever else is in it."""
    names = [*KNOWN, *(f"planner {number}" for number in range(20))]
    planned = [name for name in names if name.startswith("planner") or name == "optimal"]
    styles = line_styles(names, planned)
    assert all(bool(style.dash) == (name in planned) for name, style in styles.items())
    assert max(max(styles[name].dash) for name in planned) <= 4
    assert line_styles(["optimal"], planned)["optimal"] == styles["optimal"]
    assert line_styles(["h_LRU"])["h_LRU"] == styles["h_LRU"]
    assert len({(s.marker, s.fill) for s in list(styles.values())[:13]}) == 13
