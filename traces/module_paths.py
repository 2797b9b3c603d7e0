"""Know which module of a PyTorch model an operator call belongs to, in both passes.

``ModulePaths`` follows the modules while the model runs; ``CallOwners`` tells afterwards which one
a call belongs to.

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
    """Follow which module runs.

    Forward hooks alone: hooks in the backward pass would change what the program may do there.

    Parameters
    ----------
    models : iterable of torch.nn.Module
        Their parts are named; others are called by their class.
    entered : callable
        Told each module that begins to run.

    Attributes
    ----------
    running : list of str
        The paths of the modules that run, the innermost last.
    """

    def __init__(self, models: Iterable[Any], entered: Callable[[Any], bool]) -> None:
        self._paths: dict[Any, str] = {}
        for model in models:
            self.learn(model)
        self._is_followed = entered
        self.running: list[str] = []
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

    def _enter(self, module: Any) -> None:
        if not self._is_followed(module):
            return
        path = self._paths.get(module)
        if path is None and not self.running:
            self.learn(module)
            path = self._paths[module]
        if path is None:
            path = ".".join([*self.running[-1:], type(module).__name__])
        self.running.append(path)

    def _leave(self, module: Any) -> None:
        if self.running and self._is_followed(module):
            self.running.pop()


class CallOwners:
    """Give each call of a step its module, in order; remember which made each node of autograd."""

    def __init__(self) -> None:
        self._of_node: dict[int, str] = {}
        self._last = ""

    def of_call(self, running: str | None, in_backward: bool, node: int) -> str:
        """Return the module of a call; one of autograd's own goes with the call before it.

        Parameters
        ----------
        running : str or None
            The module that was running.
        in_backward : bool
            Whether a backward pass ran.
        node : int
            The number of the node of autograd that the call made or belongs to; -1: none.
        """
        if running or not in_backward:
            self._last = running or ""
            self._of_node.setdefault(node, self._last)
        else:
            self._last = self._of_node.get(node, self._last)
        return self._last
