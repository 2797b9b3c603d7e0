"""Settings of the caching allocator, as PyTorch spells them."""

from __future__ import annotations

import pytest
from rematsim.allocator_settings import DEFAULTS, MIB, AllocatorSettings, parse_settings
from rematsim.errors import InputError, UnknownNameError


def test_no_text_is_the_default() -> None:
    assert parse_settings("") == DEFAULTS == AllocatorSettings()
    assert str(DEFAULTS) == ""


def test_each_setting_is_read_and_blanks_do_not_matter() -> None:
    found = parse_settings(
        "max_split_size_mb:128, max_non_split_rounding_mb:30 ,roundup_power2_divisions:4,"
        "garbage_collection_threshold:0.8,expandable_segments:True"
    )
    assert found.max_split_bytes == 128 * MIB
    assert found.max_non_split_rounding_bytes == 30 * MIB
    assert found.roundup_divisions == (4,) * 16
    assert found.garbage_collection_threshold == 0.8
    assert found.expandable_segments


def test_the_last_of_two_counts_as_in_pytorch() -> None:
    assert parse_settings("expandable_segments:True,expandable_segments:False") == DEFAULTS


def test_divisions_by_size_begin_at_the_size_that_is_named() -> None:
    """The values are those of PyTorch's own test of this list, from 1 MiB on."""
    text = "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]"
    divisions = parse_settings(text).roundup_divisions
    assert divisions == (8,) * 7 + (2, 4, 2, 4) + (1,) * 5


def test_sizes_between_two_that_are_named_are_not_rounded_up() -> None:
    divisions = parse_settings("roundup_power2_divisions:[2:8,8:4]").roundup_divisions
    assert divisions == (8, 8, 0, 4) + (0,) * 12


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:128",
        "max_non_split_rounding_mb:64,expandable_segments:True",
        "roundup_power2_divisions:8,garbage_collection_threshold:0.25",
        "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]",
    ],
)
def test_what_is_written_is_read_back(text: str) -> None:
    settings = parse_settings(text)
    assert parse_settings(str(settings)) == settings
    assert settings != DEFAULTS


@pytest.mark.parametrize("divisions", [1 << 40, 1 << 54, 1 << 63, 1 << 300])
def test_divisions_without_end_divide_nothing(divisions: int) -> None:
    """Parts would be smaller than 512 bytes; and all numbers are ones that kernels can read."""
    settings = parse_settings(f"roundup_power2_divisions:{divisions}")
    assert settings.rounded((1 << 45) + 1) == (1 << 45) + 512
    assert max(settings.as_integers()) < 1 << 63


@pytest.mark.parametrize("share", ["1e-300", "0.123456789123", "0.99999999999999"])
def test_a_share_is_counted_in_billionths_and_neither_none_nor_all(share: str) -> None:
    settings = parse_settings(f"garbage_collection_threshold:{share}")
    assert parse_settings(str(settings)) == settings
    assert 0 < settings.as_integers()[2] < 10**9


def test_what_changes_nothing_on_one_stream_is_listed() -> None:
    settings = parse_settings("backend:native,pinned_num_register_threads:8")
    assert settings == DEFAULTS
    assert settings.ignored == ("backend:native", "pinned_num_register_threads:8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_split_size_mb", "'max_split_size_mb': expected key:value"),
        ("max_split_size_mb:19", "'max_split_size_mb:19': MiB, from 20 on"),
        ("max_split_size_mb:-1", "'max_split_size_mb:-1': expected a whole number"),
        ("max_non_split_rounding_mb:x", "expected a whole number"),
        ("garbage_collection_threshold:1.0", "expected a number between 0 and 1"),
        ("garbage_collection_threshold:nan", "expected a number between 0 and 1"),
        ("expandable_segments:true", "expected True or False"),
        ("roundup_power2_divisions:3", "3 is no power of two"),
        ("roundup_power2_divisions:0", "0 is no power of two"),
        ("roundup_power2_divisions:[64:3]", "3 is no power of two, nor 0"),
        ("roundup_power2_divisions:[48:2]", "48 is no power of two"),
        ("roundup_power2_divisions:[64]", "expected MiB:divisions, not '64'"),
        ("roundup_power2_divisions:[64:2", "the list does not end"),
        ("backend:cudaMallocAsync", "the one that is modelled is native"),
        ("per_process_memory_fraction:0.5", "not modelled, give the budget instead"),
        ("expandable_segments:True,,", "'': expected key:value"),
        ("max_split_size_mb:" + "9" * 1000, "more than 1000 characters"),
    ],
)
def test_what_is_out_of_range_is_named_with_the_rule(text: str, message: str) -> None:
    with pytest.raises(InputError, match=".*") as caught:
        parse_settings(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_setting_is_named_with_what_is_near() -> None:
    with pytest.raises(UnknownNameError, match="did you mean max_split_size_mb"):
        parse_settings("max_split_mb:128")
