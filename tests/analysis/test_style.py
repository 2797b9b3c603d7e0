"""Lines can be told apart, in colour and without."""

from __future__ import annotations

from itertools import combinations

import pytest
from rematsim.analysis.style import KNOWN, PLACES, line_styles, style_number


@pytest.mark.parametrize("count", [1, 8, 16, 24])
def test_every_line_of_a_panel_has_a_marker_of_its_own(count):
    styles = line_styles(f"method {number}" for number in range(count))
    assert len({(style.marker, style.filled) for style in styles.values()}) == count


def test_eight_unknown_lines_have_eight_colours():
    styles = line_styles(f"method {number}" for number in range(8))
    assert len({style.color for style in styles.values()}) == 8


def test_no_two_styles_are_alike():
    looks = [
        (style.color, style.marker, style.filled, style.dash)
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


def test_lines_of_planners_are_broken_where_there_are_others():
    names = [*KNOWN, *(f"planner {number}" for number in range(20))]
    planned = [name for name in names if name.startswith("planner") or name == "optimal"]
    styles = line_styles(names, planned)
    assert all(bool(style.dash) == (name in planned) for name, style in styles.items())
    assert max(max(styles[name].dash) for name in planned) <= 4
    assert line_styles(planned, planned) == line_styles(planned)
    assert len({(s.marker, s.filled) for s in list(styles.values())[:13]}) == 13
