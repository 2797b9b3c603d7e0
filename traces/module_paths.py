"""Know which module of a PyTorch model an operator call belongs to, in both passes.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


class ModulePaths:
    """Follow which module runs; remember which one made each node of autograd.

    Forward hooks alone: hooks in the backward pass would change what the program may do there.

    Parameters
    ----------
    models : iterable of torch.nn.Module
        Their parts are named; others are called by their class.
    entered : callable
        Told each module that begins to run.
    """

    def __init__(self, models: Iterable[Any], entered: Callable[[Any], bool]) -> None:
        self._paths: dict[Any, str] = {}
        for model in models:
            self.learn(model)
        self._is_followed = entered
        self._running: list[str] = []
        self._of_node: dict[int, str] = {}
        self._last = ""
        self._hooks: list[Any] = []

    def learn(self, model: Any) -> None:
        """Name the parts of a model."""
        root = type(model).__name__
        for name, module in model.named_modules():
            self._paths[module] = f"{root}.{name}" if name else root

    def open(self) -> None:
        """Begin to follow."""
        self._hooks = [
            register_module_forward_pre_hook(lambda module, _: self._enter(module)),
            register_module_forward_hook(lambda module, *_: self._leave(module), always_call=True),
        ]

    def close(self) -> None:
        """Stop following."""
        for hook in self._hooks:
            hook.remove()

    def forget_nodes(self) -> None:
        """Begin a new step: autograd's numbers of the last one mean nothing any more."""
        self._of_node.clear()

    def _enter(self, module: Any) -> None:
        if not self._is_followed(module):
            return
        if module not in self._paths and not self._running:
            self.learn(module)
        parent = f"{self._running[-1]}." if self._running else ""
        self._running.append(self._paths.get(module, parent + type(module).__name__))

    def _leave(self, module: Any) -> None:
        if self._running and self._is_followed(module):
            self._running.pop()

    def of_call(self, in_backward: bool, node: int) -> str:
        """Return the module of a call; one of autograd's own goes with the call before it."""
        if self._running or not in_backward:
            self._last = self._running[-1] if self._running else ""
            self._of_node.setdefault(node, self._last)
        else:
            self._last = self._of_node.get(node, self._last)
        return self._last
