"""Kernels: the memory model behind a narrow face: does a request fit, place it, free it.

This one counts bytes, as the DTR paper does: any request fits while the sum stays within the
budget. Address-true models will stand behind the same functions.
"""

from __future__ import annotations

from .jit import kernel
from .state import State


@kernel
def fits(state: State, result_bytes: int, workspace_bytes: int) -> bool:
    """Say whether a call's results and workspace find room."""
    memory = state.memory[0]
    return memory.used_bytes + result_bytes + workspace_bytes <= memory.budget_bytes


@kernel
def place(state: State, result_bytes: int, workspace_bytes: int) -> None:
    """Put a call's results into memory; the peak counts its workspace too."""
    memory = state.memory[0]
    memory.used_bytes += result_bytes
    memory.peak_bytes = max(memory.peak_bytes, memory.used_bytes + workspace_bytes)


@kernel
def free(state: State, size_bytes: int) -> None:
    """Give back the bytes of one storage, or of a result computed a second time."""
    state.memory[0].used_bytes -= size_bytes
