"""Refuse, with the reason, what a capture would get wrong or what would end the process.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..errors import InputError, TraceError

_COMPILES = "torch.compile; torch.cond and flex_attention use it"
_HINT = "capture it uncompiled: set TORCHDYNAMO_DISABLE=1, or do not call torch.compile"


def refuse_compiled(models: Iterable[Any]) -> None:
    """Refuse models that ``torch.compile`` has wrapped: under a capture they would run eagerly.

    Raises
    ------
    InputError
        If one is compiled, or a module in it.
    """
    for model in models:
        for name, module in model.named_modules():
            is_wrapped = type(module).__name__ == "OptimizedModule"
            if is_wrapped or getattr(module, "_compiled_call_impl", None) is not None:
                where = f"module {name!r} of {type(model).__name__}" if name else "the model"
                raise InputError(f"{where} is compiled (torch.compile): {_HINT}")


def higher_order(name: str) -> TraceError:
    """Return the refusal of an operator that takes functions: they run where no mode sees them."""
    return TraceError(
        f"{name}: an operator that takes functions (torch.cond, flex_attention and their like) "
        "cannot be captured; use plain Python or ordinary operators in its place"
    )


class CompiledSentinel:
    """Notices a call of a function that ``torch.compile`` made, while a capture runs.

    ``torch.cond`` and ``flex_attention`` compile, too.

    Parameters
    ----------
    report : callable
        Told of it, before the function runs.
    """

    _NAME = "_callback_from_stance"  # what such a function asks before each call

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self._report = report
        self._original: Any = None
        self._compile: Any = None

    def open(self) -> None:
        """Begin to notice; where torch has no such place, nothing is noticed."""
        self._watch_calls()
        if self._original is None:
            self._compile = torch.compile
            torch.compile = self._compiling

    def close(self) -> None:
        """Stop noticing."""
        if self._compile is not None:
            torch.compile = self._compile
        if self._original is not None:
            setattr(sys.modules["torch._dynamo.eval_frame"], self._NAME, self._original)

    def _watch_calls(self) -> None:
        """Stand in for what such functions ask, if it has been imported."""
        module = sys.modules.get("torch._dynamo.eval_frame")
        self._original = getattr(module, self._NAME, None)
        if self._original is not None:
            setattr(module, self._NAME, self._called)

    def _compiling(self, *args: Any, **kwargs: Any) -> Any:
        """Compile; the first time imports what functions ask."""
        made = self._compile(*args, **kwargs)
        if self._original is None:
            self._watch_calls()
        return made

    def _called(self, callback: Any) -> Any:
        """Answer as torch does; a callback that compiles, and not one that forbids it, counts."""
        if callable(callback):
            self._report(TraceError(f"a compiled function was called ({_COMPILES}): {_HINT}"))
        return self._original(callback)


def has_cuda_build() -> bool:
    """Say whether this torch was built for CUDA, whether or not there is a GPU."""
    return bool(torch.backends.cuda.is_built())
