"""What tests of captures share: torch, if it is there, and training steps of models."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODELS = Path(__file__).parents[2] / "examples" / "training_models.py"


@pytest.fixture
def torch() -> Any:
    """Give torch, one thread and a seed; skip where it is absent."""
    module = pytest.importorskip(
        "torch", reason="capture needs torch: pip install rematsim[capture]"
    )
    module.set_num_threads(1)
    module.manual_seed(0)
    return module


@pytest.fixture
def models(torch: Any) -> dict[str, Callable[[], Any]]:
    """Give functions that make model, optimizer and step."""
    namespace = runpy.run_path(str(MODELS))
    return {**namespace["MODELS"], **namespace["FAKES"]}
