"""What connects the device to the host: ``h100-pcie5``, ``link(d2h=24GB/s,h2d=24GB/s)``.

What stands in the column ``link``, in the key of a sweep's cell, and behind ``--device``. How
transfers go is in ``transfers.py``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeGuard

from .budgets import MAX_TEXT, parse_bytes
from .errors import BudgetError, UnknownNameError, UsageError
from .result import NO_LINK as NO_LINK
from .texts import split_list
from .traces.devices import LINKS

BY_HAND = "link"
LATENCY_NS = 10_000  # where a link is given by hand and does not say
DUPLEX = ("full", "half")
MAX_LATENCY_NS = 10**15
_CALL = re.compile(r"(?P<name>[^()]*)\((?P<settings>.*)\)", re.DOTALL)
_NOTHING = re.compile(r"0+(\.0*)?\s*([kKMGTPE]i?)?B?", re.ASCII)  # of any unit; no budget is that
_TIME = re.compile(r"(?P<number>\d+\.?\d*|\.\d+)\s*(?P<unit>ns|us|µs|ms|s)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
RATES = "a rate is bytes a second, as 24GB/s, at most 2^62; 0; or inf"


@dataclass(frozen=True)
class Link:
    """A connection between device and host.

    Attributes
    ----------
    to_host, from_host : int or None
        Bytes a second each way; None: a copy takes no time but the latency. With 0 there is no way.
    latency_ns : int
        Nanoseconds that each transfer takes beside its bytes.
    host_bytes : int or None
        Bytes of host memory; None: no limit.
    duplex : {"full", "half"}
        Whether copies both ways go on at once.
    name : str
        The device that it is of, or ``"link"``.
    """

    to_host: int | None
    from_host: int | None
    latency_ns: int = LATENCY_NS
    host_bytes: int | None = None
    duplex: str = "full"
    name: str = BY_HAND

    def to_host_ns(self, size_bytes: int) -> int | None:
        """Give how long an offload takes; None if it would never end."""
        return _duration(size_bytes, self.to_host, self.latency_ns)

    def from_host_ns(self, size_bytes: int) -> int | None:
        """Give how long a prefetch takes; None if it would never end."""
        return _duration(size_bytes, self.from_host, self.latency_ns)

    def __str__(self) -> str:
        """Write it so that `find_link` reads it back; what is the device's own is left out."""
        own = LINKS.get(self.name)
        plain = None if own is None else _of_device(self.name)
        shown = {
            "d2h": _rate_text(self.to_host),
            "h2d": _rate_text(self.from_host),
            "latency": f"{self.latency_ns}ns",
            "host": "unlimited" if self.host_bytes is None else str(self.host_bytes),
            "duplex": self.duplex,
        }
        fields = ("to_host", "from_host", "latency_ns", "host_bytes", "duplex")
        default = plain or Link(-1, -1)
        changed = [
            f"{key}={text}"
            for (key, text), field in zip(shown.items(), fields, strict=True)
            if getattr(self, field) != getattr(default, field)
        ]
        return f"{self.name}({','.join(changed)})" if changed else self.name


NO_WAY = Link(0, 0)  # between a device and a host that nothing connects


def leads_both_ways(link: Link | None) -> TypeGuard[Link]:
    """Say whether there is a link over which data can go and come back."""
    return link is not None and link.to_host != 0 and link.from_host != 0


def can_move(link: Link | None) -> TypeGuard[Link]:
    """Say whether there is one, and room on the host."""
    return leads_both_ways(link) and link.host_bytes != 0


def _duration(size_bytes: int, rate: int | None, latency_ns: int) -> int | None:
    """Divide bytes by bytes a second, rounded up to nanoseconds."""
    if rate is None:
        return latency_ns
    return None if rate == 0 else latency_ns - (-size_bytes * 10**9 // rate)


def _rate_text(rate: int | None) -> str:
    if rate is None:
        return "inf"
    for unit, size in (("GB/s", 10**9), ("MB/s", 10**6)):
        if rate and rate % size == 0:
            return f"{rate // size}{unit}"
    return f"{rate}B/s"


def _of_device(name: str) -> Link:
    figures = LINKS[name]
    return Link(figures.to_host, figures.from_host, figures.latency_ns, name=name)


@functools.lru_cache(maxsize=256)
def find_link(text: str) -> Link | None:
    """Find a link by its device's name, with settings in parentheses if some are to be other.

    Parameters
    ----------
    text : str
        ``"none"``; a device of `traces.devices.LINKS`; or ``"link(...)"`` with both rates:
        ``d2h`` and ``h2d`` in bytes a second, ``latency``, ``host`` in bytes, ``duplex``.

    Returns
    -------
    Link or None

    Raises
    ------
    UnknownNameError
        If there is no such device.
    UsageError
        If a setting is not what it should be.

    Examples
    --------
    >>> str(find_link("link(d2h=24GB/s, h2d=12GB/s, latency=1us)"))
    'link(d2h=24GB/s,h2d=12GB/s,latency=1000ns)'
    >>> find_link("h100-pcie5(host=1GiB)").host_bytes
    1073741824
    """
    called = _CALL.fullmatch(text.strip())
    name = (called["name"] if called else text).strip()
    settings = [part for part in split_list(called["settings"]) if part] if called else []
    if name == NO_LINK and not settings:
        return None
    if name not in LINKS and name != BY_HAND:
        known = ", ".join((*LINKS, BY_HAND + "(d2h=...,h2d=...)", NO_LINK))
        raise UnknownNameError(f"link {text!r}: it is one of {known}")
    given: dict[str, Any] = {}
    for part in settings:
        field, value = _setting(part)
        if field in given:
            raise UsageError(f"link {text!r}: {part.partition('=')[0].strip()} is given twice")
        given[field] = value
    if name != BY_HAND:
        return replace(_of_device(name), **given)
    if missing := [key for key, field in _RATES.items() if field not in given]:
        raise UsageError(f"link: {' and '.join(missing)} missing, a link has both ways: {RATES}")
    return Link(**given)


_RATES = {"d2h": "to_host", "h2d": "from_host"}


def _setting(part: str) -> tuple[str, int | str | None]:
    """Read one setting; give the field of a `Link` that it sets."""
    key, equals, value = (word.strip() for word in part.partition("="))
    if key in _RATES and equals:
        return _RATES[key], parse_rate(value)
    if key == "latency" and equals:
        return "latency_ns", parse_latency(value)
    if key == "host" and equals:
        return "host_bytes", parse_host_bytes(value)
    if key == "duplex" and value in DUPLEX:
        return "duplex", value
    raise UsageError(
        f"link setting {part!r}: it is d2h=RATE, h2d=RATE, latency=TIME, host=BYTES, or "
        "duplex=full|half"
    )


def parse_rate(text: str) -> int | None:
    """Read bytes a second; None for infinitely many.

    Raises
    ------
    UsageError
        If it is no rate.

    Examples
    --------
    >>> parse_rate("24GB/s"), parse_rate("0GB/s"), parse_rate("inf")
    (24000000000, 0, None)
    """
    plain = text.strip().removesuffix("/s")
    if plain == "inf":
        return None
    return _bytes(plain, f"rate {text!r}: {RATES}")


def parse_host_bytes(text: str) -> int | None:
    """Read bytes of host memory; None for ``unlimited``.

    Raises
    ------
    UsageError
        If it is neither.
    """
    if text.strip() == "unlimited":
        return None
    return _bytes(text, f"host memory {text!r}: bytes, as 64GiB, at most 2^62, or unlimited")


def parse_latency(text: str) -> int:
    """Read a time; give it in nanoseconds, rounded.

    Raises
    ------
    UsageError
        If it is no time, or too long.

    Examples
    --------
    >>> parse_latency("10us"), parse_latency("0")
    (10000, 0)
    """
    if text.strip() == "0":
        return 0
    found = _TIME.fullmatch(text.strip())
    number = -1
    if found is not None and len(text) <= MAX_TEXT:
        number = round(Decimal(found["number"]) * _UNITS[found["unit"].replace("µ", "u")])
    if not 0 <= number <= MAX_LATENCY_NS:
        raise UsageError(f"latency {text!r}: a time, as 10us or 0, of at most 10^6 s")
    return number


def _bytes(text: str, rule: str) -> int:
    try:
        return 0 if _NOTHING.fullmatch(text.strip()) else parse_bytes(text)
    except BudgetError:
        raise UsageError(rule) from None


def parse_link(text: str) -> str:
    """Read a link; give its full text.

    Raises
    ------
    UsageError
        As `find_link`.
    """
    found = find_link(text)
    return NO_LINK if found is None else str(found)


def link_with(text: str, **settings: str | None) -> str:
    """Give a link with some settings changed, as options of the command line do.

    Parameters
    ----------
    text : str
        As for `find_link`; ``"none"`` where there is nothing but settings.
    **settings
        ``d2h``, ``h2d``, ``latency``, ``host``, ``duplex``; None: as it is.
    """
    changed = {key: value for key, value in settings.items() if value is not None}
    if not changed:
        return parse_link(text)
    name, _, own = text.strip().removesuffix(")").partition("(")
    parts = [part for part in split_list(own) if part.partition("=")[0].strip() not in changed]
    parts += [f"{key}={value}" for key, value in changed.items()]
    return parse_link(f"{BY_HAND if name == NO_LINK else name}({','.join(parts)})")
