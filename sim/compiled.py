"""The compiled entry points: the engine once, a `choose` for each heuristic, and what they share.

Each is compiled, or loaded from the disk cache, when it is first asked for.
"""

from __future__ import annotations

import functools
import hashlib
import re

from . import arena, caching, choosing, engine, events, following, transferring
from .jit import Entry, entry
from .program import Program
from .serving import Serve
from .state import State

BUNDLES = (Program, State)


@functools.cache
def run() -> Entry:
    """Get the engine: (program, state, address of a `choose`) to its code."""
    return entry(engine.run, BUNDLES)


@functools.cache
def follow() -> Entry:
    """Get `following.follow`: (program, state, 0) to its code."""
    return entry(following.follow, BUNDLES)


@functools.cache
def follow_transfers() -> Entry:
    """Get `transferring.follow`, for plans that move data; as `following.follow`."""
    return entry(transferring.follow, BUNDLES)


@functools.cache
def refresh() -> Entry:
    """Get `choosing.refresh`: (program, state, storage)."""
    return entry(choosing.refresh, BUNDLES)


@functools.cache
def render() -> Entry:
    """Get `events.render`: (program, state, 0) to the length of the text."""
    return entry(events.render, BUNDLES)


@functools.cache
def choose_in_python() -> Entry:
    """Get the `choose` that leaves the choice to Python."""
    return choose(choosing.make_asking_choose(), "in_python", cached=True)


@functools.cache
def serve(model: str) -> Entry:
    """Get the entry point of a memory model with addresses (`serving.py`)."""
    function: Serve = {"arena": arena.serve_arena, "caching": caching.serve_caching}[model]()
    function.__name__ = function.__qualname__ = f"serve_{model}"
    return entry(function, BUNDLES)


def choose(function: choosing.Choose, name: str, *, cached: bool) -> Entry:
    """Get a `choose`: (program, state, call) to the number of victims.

    The name tells it from others of the same factory: it says all that the function is made of.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    function.__name__ = f"choose_{re.sub(r'[^A-Za-z0-9]', '_', name)[:40]}_{digest}"
    function.__qualname__ = function.__name__
    return entry(function, BUNDLES, cached=cached)
