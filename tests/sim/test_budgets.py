"""Budgets as written by people: every number here can be checked with a pencil."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rematsim.budgets import UNLIMITED, Budget, expand_budgets, parse_budget, parse_bytes
from rematsim.errors import BudgetError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("6GiB", 6 * 1024**3),
        ("500MB", 500_000_000),
        ("1.5e9", 1_500_000_000),
        ("12", 12),
        ("12B", 12),
        ("1.5KiB", 1536),
        ("1.9999 kB", 1999),  # 1999.9 bytes, truncated
        (" 6 gib ", 6 * 1024**3),
        (2**53, 2**53),
        (np.int64(7), 7),
    ],
)
def test_bytes_are_read_with_decimal_and_binary_units(text: str | int, count: int) -> None:
    """kB, MB... are powers of 1000; KiB, MiB... of 1024."""
    assert parse_budget(text) == Budget("bytes", count)


def test_fraction_is_the_double_nearest_the_literal_times_the_peak_truncated() -> None:
    """0.3 is a little less than 3/10 as a double; 0.3 x 10 is rounded to 3 before truncation."""
    assert parse_budget("0.3x").resolve(10) == 3
    assert parse_budget("0.29x").resolve(100) == 28  # the double product is 28.999999999999996
    assert parse_budget("0.1x").resolve(10061179152) == 1006117915
    assert parse_budget(0.5).resolve(7) == 3
    assert parse_budget("1e-1x").fraction == 0.1


def test_bytes_and_unlimited_do_not_depend_on_the_peak() -> None:
    """Only a fraction asks for the peak."""
    assert parse_budget("5").resolve(100) == 5
    assert parse_budget("unlimited").resolve(100) is None
    assert parse_budget(None) is UNLIMITED
    assert parse_budget("Unlimited").fraction is None


def test_range_is_expanded_in_decimal_with_its_end() -> None:
    """Binary steps of 0.1 would miss 0.3 and 1.0."""
    budgets = expand_budgets("0.1x:1.0x:0.1x")
    assert [budget.value for budget in budgets] == [
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1.0,
    ]


def test_range_of_bytes_counts_in_bytes() -> None:
    """1 GiB to 2 GiB by 512 MiB."""
    values = [budget.value for budget in expand_budgets("1GiB:2GiB:512MiB")]
    assert values == [1073741824, 1610612736, 2147483648]


def test_range_whose_step_misses_the_end_stops_below_it() -> None:
    """0.1, 0.5, 0.9; the next would be 1.3."""
    assert [budget.value for budget in expand_budgets("0.1x:1.0x:0.4x")] == [0.1, 0.5, 0.9]


def test_lists_keep_their_order_and_name_each_budget_once() -> None:
    """A budget given twice is one column of the sweep."""
    budgets = expand_budgets(["0.5x,unlimited", "0.50x", 6, 0.25])
    assert budgets == [
        Budget("fraction", 0.5),
        UNLIMITED,
        Budget("bytes", 6),
        Budget("fraction", 0.25),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ",", "1,,2", "x", "GiB", "nan", "nanx", "inf", "infx", "-1", "-0.5x", "0", "0x"),
        *("0.0GiB", "1_000", "0x10", "\u0661", "6G", "6 Gigs", "half", "50%", "1e99999", "1e9999x"),
        *("9" * 70, "1e30", "2000x", "1e-12x", "0.5", "0.1:1.0:0.1", "1:2", "1:2:3:4", "1:2:0"),
        *("1x:0.5x:0.1x", "0.5x:1x:-0.1x", "1x:2GiB:1x", "unlimited:2:1", "0.1x:1x:0.00000001x"),
    ],
)
def test_what_is_no_budget_is_refused_in_one_line(text: str) -> None:
    """The message quotes the text and says what is allowed."""
    with pytest.raises(BudgetError) as caught:
        expand_budgets(text)
    assert "\n" not in str(caught.value)
    assert "budget" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "value", [True, float("nan"), float("inf"), -1, 0, 0.0, [1], object(), b"1"]
)
def test_values_of_other_kinds_are_refused(value: object) -> None:
    """From Python, too."""
    with pytest.raises(BudgetError):
        parse_budget(value)  # type: ignore[arg-type]


def test_messages_say_what_was_probably_meant() -> None:
    """A fraction without x, and a unit that may be decimal or binary."""
    with pytest.raises(BudgetError, match=r"written 0\.5x"):
        parse_budget("0.5")
    with pytest.raises(BudgetError, match="write GB .* or GiB"):
        parse_budget("6G")


def test_no_list_of_budgets_is_empty_and_none_is_endless() -> None:
    """Ten thousand are the most, in ranges and in all."""
    with pytest.raises(BudgetError, match="no budget"):
        expand_budgets([])
    with pytest.raises(BudgetError, match="more than 10000"):
        expand_budgets("1:1000000:1")
    with pytest.raises(BudgetError, match="more than 10000"):
        expand_budgets([str(count) for count in range(1, 10_100)])


def test_a_fraction_too_large_for_the_engine_is_refused() -> None:
    """Bytes are 64-bit integers."""
    with pytest.raises(BudgetError, match="2\\^62"):
        parse_budget("1000x").resolve(2**60)


@given(st.text(max_size=30))
def test_any_text_is_a_budget_or_an_error_of_ours(text: str) -> None:
    """Nothing else is raised, and what is read is positive."""
    try:
        budgets = expand_budgets(text)
    except BudgetError:
        return
    assert all(budget.value is None or budget.value > 0 for budget in budgets)


@given(st.integers(1, 2**62) | st.decimals(Decimal("0.001"), 10, places=3).map(lambda d: f"{d}x"))
def test_str_of_a_budget_is_read_back(given_budget: int | str) -> None:
    """Tables and messages name budgets in a form that the command takes."""
    budget = parse_budget(given_budget)
    assert parse_budget(str(budget)) == budget


@pytest.mark.parametrize("text", ["0.5x,0.6x", "0.1x:1.0x:0.1x", "6G", "nan", "some"])
def test_where_one_budget_is_wanted_the_message_offers_no_list_and_no_range(text: str) -> None:
    """Where several may stand it does; where bytes are wanted it offers no fraction."""
    offered = (
        "allowed: bytes (6GiB, 500MB, 1.5e9), a fraction of the unlimited peak (0.5x) or unlim"
    )
    with pytest.raises(BudgetError) as caught:
        parse_budget(text)
    assert offered in str(caught.value) and "list of these" not in str(caught.value)
    is_several = "," in text or ":" in text
    assert ("one is wanted, no list or range" in str(caught.value)) == is_several
    with pytest.raises(BudgetError, match="a number of bytes is needed, as 6GiB or 500MB$"):
        parse_bytes(text)
    if not is_several:
        with pytest.raises(BudgetError, match="a list of these with commas, or unlimited$"):
            expand_budgets(f"0.5x,{text}")
