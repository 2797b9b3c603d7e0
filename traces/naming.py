"""Give names to what a PyTorch program has made before a capture: parameters, buffers, state.

Needs torch, so only the modules of a capture import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .storages import dense_tensors, objects_of


def constant_labels(models: Iterable[Any], optimizers: Iterable[Any]) -> dict[int, str]:
    """Return a label for each storage of models and optimizers, by address.

    Parameters
    ----------
    models : iterable of torch.nn.Module
    optimizers : iterable of torch.optim.Optimizer

    Returns
    -------
    dict of int to str
        Such as ``param:0.weight``, ``grad:0.weight``, ``buffer:1.running_mean``,
        ``state:0.weight.exp_avg``.
    """
    labels: dict[int, str] = {}

    def label(tensor: Any, text: str) -> None:
        for part in dense_tensors(tensor):
            labels.setdefault(part.untyped_storage()._cdata, text)

    names: dict[Any, str] = {}
    for model in models:
        for name, parameter in model.named_parameters():
            names[parameter] = name
            label(parameter, f"param:{name}")
            label(parameter.grad, f"grad:{name}")
        for name, buffer in model.named_buffers():
            label(buffer, f"buffer:{name}")
    for optimizer in optimizers:
        for number, (parameter, state) in enumerate(optimizer.state.items()):
            for key, value in state.items():
                label(value, f"state:{names.get(parameter, number)}.{key}")
    return labels


def models_of(optimizers: Iterable[Any]) -> list[Any]:
    """Find the modules whose parameters some optimizers update: the outermost ones.

    Parameters
    ----------
    optimizers : iterable of torch.optim.Optimizer
        Without any, all outermost modules with parameters are meant.

    Returns
    -------
    list of torch.nn.Module
    """
    wanted = {
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    modules = objects_of(torch.nn.Module)
    inner = {id(child) for module in modules for child in module.children()}
    return [
        module
        for module in modules
        if id(module) not in inner
        and any(not wanted or id(parameter) in wanted for parameter in module.parameters())
    ]
