"""Any storage, each with the same chance."""

from __future__ import annotations

from .registry import declare_random

declare_random(
    "h_rand",
    reference="Kirisame et al., ICLR 2021, section 4.1",
    summary="Uniform over the pool, from the seed.",
)
