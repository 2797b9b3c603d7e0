"""PyTorch's caching allocator by hand: one rule a test, each a sentence and a table.

Rules and their sources are listed, with the same numbers, in `docs/caching.md`. A table has a line
a request: ``a=600K`` allocates, ``-a`` frees; then what is allocated and what is reserved
afterwards, and for an allocation the address of its block.
"""

from __future__ import annotations

from rematsim.allocator_settings import parse_settings
from rematsim.audit_caching import PlainCaching

UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20}


def size_of(text: str) -> int:
    """Read ``2.5M``."""
    return int(float(text[:-1]) * UNITS[text[-1]])


def follow(table: str, settings: str = "", limit: str = "") -> PlainCaching:
    """Do what a table says, and find in the allocator what it says."""
    allocator = PlainCaching(size_of(limit) if limit else None, parse_settings(settings))
    held: dict[str, int] = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        request, allocated, reserved, *address = line.split()
        name, _, size = request.partition("=")
        if size:
            place = allocator.place(size_of(size))
            assert place == (None if address == ["oom"] else size_of(address[0])), line
            if place is not None:
                held[name] = place
        else:
            allocator.free(held.pop(name.removeprefix("-")))
        sizes = (allocator.allocated_bytes, allocator.reserved_bytes)
        assert sizes == (size_of(allocated), size_of(reserved)), line
    return allocator


def test_requests_are_rounded_to_512_bytes_and_a_small_segment_has_2_mib() -> None:
    """Rules 1 to 5: 1 byte takes 512; what follows lies behind it in the same segment."""
    follow("""
        a=1B      0.5K   2M   0B
        b=513B    1.5K   2M   0.5K
        c=512B    2K     2M   1.5K
    """)


def test_the_pools_part_at_1_mib() -> None:
    """Rules 2 and 3: 1 MiB is small, a byte more is large, and its segment has 20 MiB."""
    follow("""
        a=1M        1M         2M    0B
        b=1048577B  2048.5K    22M   2M
        c=1M        3072.5K    22M   1M
    """)


def test_large_segments_have_20_mib_below_10_and_their_own_size_from_there() -> None:
    """Rules 3 and 5: 10 MiB has 10 of its own, 11 MiB all 12, 9 MiB shares 20."""
    follow("""
        a=10M   10M   10M   0M
        b=11M   22M   22M   10M
        c=9M    31M   42M   22M
    """)


def test_the_best_fit_is_the_smallest_and_then_the_lowest() -> None:
    """Rule 4: free are 4 MiB at 0, 3 at 5.5 and 3 at 10: 3 goes to 5.5, though 0 is lower."""
    follow("""
        a=4M   4M    20M   0M
        p=1.5M 5.5M  20M   4M
        b=3M   8.5M  20M   5.5M
        q=1.5M 10M   20M   8.5M
        c=3M   13M   20M   10M
        r=7M   20M   20M   13M
        -a     16M   20M
        -b     13M   20M
        -c     10M   20M
        d=3M   13M   20M   5.5M
        e=3M   16M   20M   10M
        f=2.5M    18.5M   20M   0M
    """)


def test_what_remains_of_a_large_block_is_split_off_only_above_1_mib() -> None:
    """Rule 5: 10 of 11 MiB leave 1, which counts as allocated; 9.5 leave 1.5, which is free."""
    follow("""
        a=9M    9M    20M   0M
        b=10M   20M   20M   9M
        -b      9M    20M
        c=9.5M  18.5M 20M   9M
        d=2M    20.5M 40M   20M
    """)


def test_a_small_block_is_split_to_the_last_512_bytes() -> None:
    """Rule 5: 1 MiB less 512 bytes leaves 512, and they serve the next request."""
    follow("""
        a=1M         1M         2M   0M
        b=1048064B   2047.5K    2M   1M
        c=1B         2M         2M   2047.5K
    """)


def test_free_neighbours_merge_at_once_and_their_segment_stays() -> None:
    """Rule 6: two freed 5 MiB make room for 10 where they were; nothing is given back."""
    follow("""
        a=5M    5M    20M   0M
        b=5M    10M   20M   5M
        c=10M   20M   20M   10M
        -a      15M   20M
        -b      10M   20M
        d=10M   20M   20M   0M
        -c      10M   20M
        -d      0B    20M
        e=20M   20M   20M   0M
    """)


def test_blocks_of_two_segments_never_merge() -> None:
    """Rule 6: two segments of 10 MiB side by side do not hold 20."""
    follow("""
        a=10M   10M   10M   0M
        b=10M   20M   20M   10M
        -a      10M   20M
        -b      0B    20M
        c=20M   20M   40M   20M
    """)


def test_sizes_are_rounded_up_to_a_part_of_the_power_of_two() -> None:
    """Rule 1: with 4 divisions 1200 KiB become 1280; a power of two stays; 600 KiB become 640."""
    follow(
        """
        a=1200K   1280K   20M   0M
        b=2M      3328K   20M   1280K
        c=600K    3968K   22M   20M
        """,
        "roundup_power2_divisions:4",
    )


def test_divisions_go_by_the_power_of_two_below_a_size() -> None:
    """Rule 1: 3 MiB is from 2 MiB on (2 divisions: 3), 5 from 4 on (1: as it is), 9 from 8 (16)."""
    follow(
        """
        a=2.5M    3M      20M   0M
        b=5M      8M      20M   3M
        c=8.25M   16.5M   20M   8M
        """,
        "roundup_power2_divisions:[2:2,4:1,>:16]",
    )


def test_an_oversize_block_is_neither_split_nor_given_to_a_smaller_request() -> None:
    """Rule 7: 30 MiB is oversize; 25 takes it whole, 10 does not get it, nor does 5."""
    follow(
        """
        a=30M   30M   30M   0M
        -a      0B    30M
        b=10M   10M   40M   30M
        c=25M   40M   40M   0M
        -c      10M   40M
        d=5M    15M   60M   40M
        """,
        "max_split_size_mb:25",
    )


def test_an_oversize_block_that_wastes_20_mib_is_not_taken() -> None:
    """Rule 7: 50 MiB for 30 would waste 20, and for 30.5 not quite."""
    follow(
        """
        a=50M     50M   50M   0M
        -a        0B    50M
        b=30M     30M   80M   50M
        c=30.5M   80M   80M   0M
        """,
        "max_split_size_mb:25",
    )


def test_how_much_may_be_wasted_is_a_setting() -> None:
    """Rule 7: up to 30 MiB."""
    follow(
        """
        a=50M   50M   50M   0M
        -a      0B    50M
        b=30M   50M   50M   0M
        """,
        "max_split_size_mb:25,max_non_split_rounding_mb:30",
    )


def test_whole_free_segments_are_given_back_before_out_of_memory() -> None:
    """Rule 8: 30 MiB do not fit beside two cached 20; both go, a retry; a split one would not."""
    allocator = follow(
        """
        a=20M   20M   20M   0M
        b=20M   40M   40M   20M
        -a      20M   40M
        -b      0B    40M
        c=30M   30M   30M   0M
        """,
        limit="50M",
    )
    assert allocator.retries == 1


def test_a_segment_with_an_allocated_block_cannot_be_given_back() -> None:
    """Rule 8: 2 MiB hold 20 reserved, and 31 of 50 do not fit, though 48 are not allocated."""
    allocator = follow(
        """
        a=2M    2M    20M   0M
        b=31M   2M    20M   oom
        """,
        limit="50M",
    )
    assert (allocator.retries, allocator.largest_hole) == (0, 30 << 20)


def test_both_pools_give_back() -> None:
    """Rule 8: the small pool's 2 MiB make room for a large segment."""
    follow(
        """
        a=1M    1M    2M    0M
        -a      0B    2M
        b=20M   20M   20M   0M
        """,
        limit="20M",
    )


def test_one_oversize_block_is_given_back_first() -> None:
    """Rule 8: for 30 MiB the cached 60 goes and the 100 stays; that is no retry."""
    allocator = follow(
        """
        a=60M    60M    60M    0M
        b=100M   160M   160M   60M
        -a       100M   160M
        -b       0B     160M
        c=30M    30M    130M   0M
        """,
        "max_split_size_mb:25",
        limit="170M",
    )
    assert allocator.retries == 0


def test_where_no_oversize_block_is_enough_the_largest_go_until_they_are() -> None:
    """Rule 8: for 70 MiB 50 and 40 go, and 30 stays."""
    allocator = follow(
        """
        a=30M   30M    30M    0M
        b=40M   70M    70M    30M
        c=50M   120M   120M   70M
        -a      90M    120M
        -b      50M    120M
        -c      0B     120M
        d=70M   70M    100M   30M
        """,
        "max_split_size_mb:25",
        limit="130M",
    )
    assert allocator.retries == 0


def test_garbage_is_collected_above_the_share_the_older_half_at_once() -> None:
    """Rule 9: of 200 MiB 60 may be reserved, and 72 are when 30 find no block.

    The free blocks of a, b and c have seen 3, 2 and 1 requests: the mean is 2, and so a and b go,
    though a alone would be enough.
    """
    allocator = follow(
        """
        s=12M   12M   12M   0M
        a=20M   32M   32M   12M
        b=20M   52M   52M   32M
        c=20M   72M   72M   52M
        -a      52M   72M
        -s      40M   72M
        t=12M   52M   72M   0M
        -b      32M   72M
        -t      20M   72M
        u=12M   32M   72M   0M
        -c      12M   72M
        z=30M   42M   62M   12M
        """,
        "garbage_collection_threshold:0.3",
        limit="200M",
    )
    assert allocator.retries == 0


def test_expandable_segments_grow_by_pages_where_the_last_block_ends() -> None:
    """Rule 10: 15 MiB map one page of 20; 10 more need a second; one segment holds both."""
    allocator = follow(
        """
        a=15M   15M   20M   0M
        b=10M   25M   40M   15M
        c=15M   40M   40M   25M
        -b      30M   40M
        d=30M   60M   80M   40M
        """,
        "expandable_segments:True",
        limit="160M",
    )
    assert [segment.size for segment in allocator.segments] == [180 << 20]


def test_a_free_end_grows_instead_of_a_new_segment() -> None:
    """Rule 10: what would need a segment of 30 MiB needs one more page behind the freed 20."""
    follow(
        """
        a=10M   10M   20M   0M
        b=10M   20M   20M   10M
        -b      10M   20M
        c=30M   40M   40M   10M
        """,
        "expandable_segments:True",
        limit="160M",
    )


def test_an_expandable_block_is_split_to_512_bytes_in_both_pools() -> None:
    """Rule 10: 19.5 of 20 MiB leave half a MiB free in the large pool."""
    follow(
        """
        a=19.5M   19968K   20M   0M
        """,
        "expandable_segments:True",
        limit="160M",
    )


def test_a_block_that_can_grow_is_taken_last() -> None:
    """Rule 10: 3 MiB go to the hole of 4, not to the end of 3, which could become 163."""
    follow(
        """
        a=4M    4M    20M   0M
        b=13M   17M   20M   4M
        -a      13M   20M
        c=3M    16M   20M   0M
        """,
        "expandable_segments:True",
        limit="160M",
    )


def test_giving_back_unmaps_the_pages_inside_free_blocks() -> None:
    """Rules 8 and 10: of 45 free MiB between two blocks one page of 20 is whole; 1 MiB needs 2.

    Addresses of the large segment end at 80 MiB: 9/8 of 60, in whole pages.
    """
    allocator = follow(
        """
        a=5M    5M    20M   0M
        b=45M   50M   60M   5M
        c=5M    55M   60M   50M
        -b      10M   60M
        d=1M    11M   42M   80M
        """,
        "expandable_segments:True",
        limit="60M",
    )
    assert allocator.retries == 1
    assert [b.size >> 20 for b in allocator.blocks("free")] == [1, 5, 10, 15]


def test_pages_that_were_unmapped_are_mapped_again() -> None:
    """Rule 10: 45 MiB fit where they were, one page being mapped again."""
    follow(
        """
        a=5M    5M    20M   0M
        b=45M   50M   60M   5M
        c=5M    55M   60M   50M
        -b      10M   60M
        d=1M    11M   42M   80M
        -d      10M   42M
        e=45M   55M   60M   5M
        """,
        "expandable_segments:True",
        limit="60M",
    )
