"""What tests of captures share: torch, if it is there, and training steps of models."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def torch() -> Any:
    """Give torch, one thread and a seed; skip where it is absent."""
    module = pytest.importorskip("torch", reason="capture needs torch: pip install torch")
    module.set_num_threads(1)
    module.manual_seed(0)
    return module


@pytest.fixture
def models(torch: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], Any]]:
    """Give functions that make model, optimizer and step."""
    monkeypatch.syspath_prepend(EXAMPLES)
    made: dict[str, Callable[[], Any]] = import_module("training_models").MODELS
    return made
