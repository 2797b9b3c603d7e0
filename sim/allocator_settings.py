"""Settings of PyTorch's CUDA caching allocator, spelled as ``PYTORCH_CUDA_ALLOC_CONF`` is.

What each does is in ``docs/caching.md``. A setting that changes nothing here (one stream, no
pinned memory) is accepted and listed; one that would change something and is not modelled is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from .errors import UnknownNameError, UsageError
from .traces.wording import show

MIB = 1 << 20
NO_LIMIT = 2**62
LARGE_BUFFER_MB = 20  # a large segment that several blocks share
ALIGNMENT = 512  # bytes
FIRST_INTERVAL = 20  # the logarithm of 1 MiB
INTERVALS = 16  # of sizes that may be rounded differently: from 1 MiB, 2 MiB, ... 32 GiB on
MAX_MB = NO_LIMIT // MIB
MAX_TEXT = 1000
BILLION = 10**9  # kernels count the threshold in billionths
DIGITS = 9
MOST_DIVISIONS = 1 << 40  # from there on nothing is divided: no part is smaller than 512 bytes

IGNORED = (
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
)
NOT_MODELLED = {
    "per_process_memory_fraction": "give the budget instead",
    "throw_on_cudamalloc_oom": "an out-of-memory here is a result, and comes after the retry",
    "large_segment_size_mb": "large segments have 20 MiB",
    "expandable_segments_reserve": "an expandable segment has 9/8 of the budget",
    "expandable_segments_reserve_by_class": "an expandable segment has 9/8 of the budget",
}


@dataclass(frozen=True)
class AllocatorSettings:
    """How the caching allocator rounds, splits and gives back.

    Attributes
    ----------
    max_split_bytes : int
        Blocks from this size on are oversize: never split, and only for requests from it on.
    max_non_split_rounding_bytes : int
        An oversize block serves a request that is smaller by less than this.
    roundup_divisions : tuple of int
        For sizes from 1 MiB, 2 MiB, 4 MiB, ... on: into how many parts the way to the next power
        of two is divided; 0 or 1, rounded to 512 bytes only.
    garbage_collection_threshold : float
        Share of the budget above which unused segments are given back early; 0 for never.
    expandable_segments : bool
        Whether segments are ranges of addresses that are backed page by page.
    ignored : tuple of str
        What was given and changes nothing here.
    """

    max_split_bytes: int = NO_LIMIT
    max_non_split_rounding_bytes: int = LARGE_BUFFER_MB * MIB
    roundup_divisions: tuple[int, ...] = (0,) * INTERVALS
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    ignored: tuple[str, ...] = field(default=(), compare=False)

    def rounded(self, size: int) -> int:
        """Give the size of the block that a request needs."""
        place = min(max(size.bit_length() - 1 - FIRST_INTERVAL, 0), INTERVALS - 1)
        divisions = self.roundup_divisions[place]
        part = ALIGNMENT
        if divisions > 1 and size > ALIGNMENT * divisions:
            part = (1 << (size.bit_length() - 1)) // divisions
        return max(-(-size // part) * part, ALIGNMENT)

    def as_integers(self) -> tuple[int, ...]:
        """Give them as the kernels read them (``caching.py``)."""
        return (
            self.max_split_bytes,
            self.max_non_split_rounding_bytes,
            round(self.garbage_collection_threshold * BILLION),
            int(self.expandable_segments),
            *self.roundup_divisions,
        )

    def __str__(self) -> str:
        """Write what is not the default, in one order, as `parse_settings` reads it."""
        written = [
            ("max_split_size_mb", self.max_split_bytes // MIB),
            ("max_non_split_rounding_mb", self.max_non_split_rounding_bytes // MIB),
            ("roundup_power2_divisions", _written_divisions(self.roundup_divisions)),
            ("garbage_collection_threshold", self.garbage_collection_threshold),
            ("expandable_segments", self.expandable_segments),
        ]
        own = zip(written, _values(self), _values(DEFAULTS), strict=True)
        return ",".join(f"{name}:{text}" for (name, text), mine, default in own if mine != default)


def _values(settings: AllocatorSettings) -> tuple[object, ...]:
    return (
        settings.max_split_bytes,
        settings.max_non_split_rounding_bytes,
        settings.roundup_divisions,
        settings.garbage_collection_threshold,
        settings.expandable_segments,
    )


DEFAULTS = AllocatorSettings()


def parse_settings(text: str) -> AllocatorSettings:
    """Read settings.

    Parameters
    ----------
    text : str
        ``key:value`` with commas between them; blanks do not matter, and of a key that is given
        twice the last one counts, as in PyTorch.

    Returns
    -------
    AllocatorSettings

    Raises
    ------
    UnknownNameError
        There is no such setting.
    UsageError
        It is not spelled so, its value is out of range, or it is not modelled.

    Examples
    --------
    >>> str(parse_settings("expandable_segments:True, max_split_size_mb:128"))
    'max_split_size_mb:128,expandable_segments:True'
    >>> parse_settings("backend:native").ignored
    ('backend:native',)
    """
    if len(text) > MAX_TEXT:
        raise UsageError(f"allocator settings {show(text)}: more than {MAX_TEXT} characters")
    settings = DEFAULTS
    for part in _split(text.replace(" ", "")):
        key, _, value = part.partition(":")
        if not key or not value:
            raise UsageError(f"allocator setting {show(part)}: expected key:value")
        settings = _with(settings, key, value)
    return settings


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets; no text has no parts."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if text else []


def _with(settings: AllocatorSettings, key: str, value: str) -> AllocatorSettings:
    """Add one setting to others."""
    name = show(f"{key}:{value}")
    if key in READERS:
        try:
            return READERS[key](settings, value)
        except ValueError as error:
            raise UsageError(f"allocator setting {name}: {error}") from None
    if key in IGNORED or f"{key}:{value}" == "backend:native":
        return replace(settings, ignored=(*settings.ignored, f"{key}:{value}"))
    if key in NOT_MODELLED:
        raise UsageError(f"allocator setting {name}: not modelled, {NOT_MODELLED[key]}")
    if key == "backend":
        raise UsageError(f"allocator setting {name}: the one that is modelled is native")
    close = get_close_matches(key, [*READERS, *IGNORED, "backend"], 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UnknownNameError(
        f"unknown allocator setting {show(key)}; known: {', '.join(READERS)}{hint}"
    )


def _megabytes(value: str) -> int:
    """Read a size that is no smaller than a large segment, in bytes."""
    count = _whole(value)
    if count < LARGE_BUFFER_MB:
        raise ValueError(f"MiB, from {LARGE_BUFFER_MB} on")
    return min(count, MAX_MB) * MIB


def _whole(value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ValueError("expected a whole number")
    return int(value)


def _power_of_two(value: str, zero: bool = False) -> int:
    count = _whole(value)
    if count & (count - 1) or not (count or zero):
        raise ValueError(f"{count} is no power of two" + (", nor 0" if zero else ""))
    return min(count, MOST_DIVISIONS)


def _read_split(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, max_split_bytes=_megabytes(value))


def _read_rounding(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, max_non_split_rounding_bytes=_megabytes(value))


def _read_threshold(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ValueError("expected a number between 0 and 1")
    least = 1 / BILLION
    share = min(max(round(share, DIGITS), least), 1 - least)
    return replace(settings, garbage_collection_threshold=share)


def _read_expandable(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    if value not in ("True", "False"):
        raise ValueError("expected True or False")
    return replace(settings, expandable_segments=value == "True")


def _read_divisions(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    """Read one number for all sizes, or ``[64:8,128:4,>:1]``: from 64 MiB on 8, and so on.

    Notes
    -----
    What is smaller than the first size is as the first; ``>`` is all above the last; sizes
    between two that are named and not themselves named are rounded to 512 bytes.
    """
    if not value.startswith("["):
        return replace(settings, roundup_divisions=(_power_of_two(value),) * INTERVALS)
    if not value.endswith("]"):
        raise ValueError("the list does not end")
    divisions, last = [0] * INTERVALS, -1
    for part in _split(value[1:-1]):
        size, colon, count = part.partition(":")
        if not colon:
            raise ValueError(f"expected MiB:divisions, not {show(part)}")
        parts = _power_of_two(count, zero=True)
        if size == ">":
            divisions[last + 1 :] = [parts] * (INTERVALS - last - 1)
            continue
        place = min(_power_of_two(size).bit_length() - 1, INTERVALS - 1)
        if last < 0:
            divisions[:place] = [parts] * place
        divisions[place], last = parts, place
    return replace(settings, roundup_divisions=tuple(divisions))


def _written_divisions(divisions: tuple[int, ...]) -> str:
    """Write divisions: one number if they are all the same."""
    if len(set(divisions)) == 1 and divisions[0]:
        return str(divisions[0])
    return "[" + ",".join(f"{1 << k}:{count}" for k, count in enumerate(divisions)) + "]"


READERS: dict[str, Callable[[AllocatorSettings, str], AllocatorSettings]] = {
    "max_split_size_mb": _read_split,
    "max_non_split_rounding_mb": _read_rounding,
    "roundup_power2_divisions": _read_divisions,
    "garbage_collection_threshold": _read_threshold,
    "expandable_segments": _read_expandable,
}
