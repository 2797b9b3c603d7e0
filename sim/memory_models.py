"""The memory models by name, with their settings: ``counter``, ``arena(small_area=10MiB)``.

What stands in the column ``memory``, in the key of a sweep's cell, and behind ``--memory``. What
the models do is in ``memory.py``, ``arena.py`` and ``caching.py``, whose settings are spelled as
PyTorch does (``caching(max_split_size_mb:128)``); a new one is declared here and in
``compiled.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from .allocator_settings import DEFAULTS, AllocatorSettings, parse_settings
from .budgets import parse_bytes
from .errors import BudgetError, UnknownNameError, UsageError
from .texts import split_list

COUNTER, ARENA, CACHING = "counter", "arena", "caching"
_CALL = re.compile(r"(?P<name>[^()]*)\((?P<arguments>.*)\)", re.DOTALL)


@dataclass(frozen=True)
class MemoryModel:
    """A memory model with its settings.

    Attributes
    ----------
    name : str
        As in the column ``memory``: with the settings that are not the default ones.
    model : str
        Which one it is.
    settings : tuple of int
        As its kernels read them.
    """

    name: str
    model: str
    settings: tuple[int, ...] = ()

    @property
    def has_addresses(self) -> bool:
        """Whether it says where things lie, not only how much there is."""
        return self.model != COUNTER


def _counter(arguments: list[str]) -> MemoryModel:
    if arguments:
        raise UsageError(f"memory {COUNTER}({arguments[0]}): it has no settings")
    return MemoryModel(COUNTER, COUNTER)


def _arena(arguments: list[str]) -> MemoryModel:
    small = 0
    for argument in arguments:
        key, equals, value = (part.strip() for part in argument.partition("="))
        if key != "small_area" or not equals:
            raise UsageError(f"memory arena({argument}): its setting is small_area=BYTES")
        small = _bytes(value, "memory arena: small_area")
    shown = f"{ARENA}(small_area={small})" if small else ARENA
    return MemoryModel(shown, ARENA, (small,))


def _caching(arguments: list[str]) -> MemoryModel:
    settings = parse_settings(",".join(arguments))
    shown = f"{CACHING}({settings})" if settings != DEFAULTS else CACHING
    return MemoryModel(shown, CACHING, settings.as_integers())


def settings_of(name: str) -> AllocatorSettings:
    """Read the settings out of the full name of a caching model."""
    called = _CALL.fullmatch(name)
    return parse_settings(called["arguments"]) if called else DEFAULTS


def _bytes(text: str, where: str) -> int:
    """Read a number of bytes; 0 is one."""
    try:
        return 0 if text == "0" else parse_bytes(text)
    except BudgetError as error:
        raise UsageError(f"{where}: {error}") from None


# Readers of the settings, by name of the model.
MODELS: dict[str, tuple[Callable[[list[str]], MemoryModel], str]] = {
    COUNTER: (_counter, "counts bytes: what fits the budget in sum, fits"),
    ARENA: (_arena, "one arena, best fit, 512-byte rounding; small_area=BYTES sets some apart"),
    CACHING: (_caching, "PyTorch's caching allocator; KEY:VALUE as in PYTORCH_CUDA_ALLOC_CONF"),
}


@functools.lru_cache(maxsize=256)
def find_memory(text: str) -> MemoryModel:
    """Find a memory model by its name, with settings in parentheses if some are to be other.

    Raises
    ------
    UnknownNameError
        If there is no such model.
    UsageError
        If a setting is not what it should be.

    Examples
    --------
    >>> find_memory("arena(small_area=10MiB)")
    MemoryModel(name='arena(small_area=10485760)', model='arena', settings=(10485760,))
    """
    called = _CALL.fullmatch(str(text).strip())
    name = (called["name"] if called else str(text)).strip()
    if name not in MODELS:
        raise UnknownNameError(f"memory {text!r}: it is one of {', '.join(MODELS)}")
    arguments = split_list(called["arguments"]) if called else []
    return MODELS[name][0]([argument for argument in arguments if argument])


def parse_memory(text: str) -> str:
    """Read a memory model; give its full name."""
    return find_memory(str(text)).name
