"""Axes: their ends, and as many round ticks on them as have room for their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from .labels import TICK_SIZE, count_text, number_texts, text_width

STEPS = [1, 2, 2.5, 5, 10]
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

# From this slowdown on, the axis of slowdowns is logarithmic.
LOG_FROM = 8.0

# Ratio of the ends of an axis on which nothing, or a single value, is shown.
LEAST_RATIO = 1.05


@dataclass(frozen=True)
class BudgetScale:
    """The horizontal axis that all panels share; runs without a budget stand at its right end."""

    low: float
    high: float
    unlimited: float | None

    @classmethod
    def of(cls, points: pd.DataFrame) -> BudgetScale:
        """Take in the budgets of all points."""
        finite = np.unique(points["fraction"][np.isfinite(points["fraction"])])
        low, high = (float(finite[0]), float(finite[-1])) if finite.size else (1.0, 1.0)
        unlimited = None
        if np.isinf(points["fraction"]).any():
            unlimited = high + (0.15 * (high - low) or 0.1)
        return cls(low, high, unlimited)

    def x(self, fractions: pd.Series[float]) -> pd.Series[float]:
        """Return where budgets stand."""
        return fractions.replace(np.inf, self.unlimited or np.inf)

    def limits(self) -> tuple[float, float]:
        """Return the ends of the axis."""
        end = self.unlimited or self.high
        margin = 0.05 * (end - self.low) or 0.1
        return self.low - margin, end + margin

    def apply(self, axes: Axes, width: float) -> None:
        """Set limits and as many ticks as have room on `width` inches."""
        axes.set_xlim(*self.limits())
        ticks = self._ticks(width)
        texts = number_texts(ticks)
        if self.unlimited is not None:
            ticks, texts = [*ticks, self.unlimited], [*texts, "∞"]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FixedFormatter(texts))

    def _ticks(self, width: float) -> list[float]:
        """Round values between the ends whose labels leave room between them."""
        if self.low == self.high:
            return [float(f"{self.low:.4g}")]
        low, high = self.limits()
        inch = width / (high - low)
        end = high if self.unlimited is None else self.unlimited - 0.18 / inch
        for count in (6, 5, 4, 3, 2):
            ticks = [value for value in round_ticks(low, high, count) if value <= end]
            widest = max((text_width(text, TICK_SIZE) for text in number_texts(ticks)), default=0)
            if len(ticks) < 2 or (ticks[1] - ticks[0]) * inch > 1.25 * widest:
                return ticks
        return ticks[:1]


def round_ticks(low: float, high: float, count: int) -> list[float]:
    """Return at most about `count` round values in a range."""
    values = MaxNLocator(count, steps=STEPS).tick_values(low, high)
    return [round(float(value), 12) for value in values if low - 1e-9 <= value <= high + 1e-9]


def number_axis(axis: Axis, ticks: list[float], scale: float = 1.0) -> None:
    """Put ticks on an axis, numbered with the same decimals; the axis counts `scale` to one."""
    axis.set_major_locator(FixedLocator([tick * scale for tick in ticks]))
    axis.set_major_formatter(FixedFormatter(number_texts(ticks)))


def bytes_axis(axis: Axis, high: float, most_ticks: int = 6) -> str:
    """Write numbers in a binary unit on an axis of bytes from 0 on; give the unit."""
    place = min(int(np.log2(max(high, 1.0)) // 10), len(BYTE_UNITS) - 1)
    size = 1024.0**place
    number_axis(axis, round_ticks(0, high / size, most_ticks), size)
    return BYTE_UNITS[place]


def plain_axis(axes: Axes, low: float, high: float) -> None:
    """Make the vertical axis linear, with round ticks inside its range."""
    margin = 0.04 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    number_axis(axes.yaxis, round_ticks(low - margin, high + margin, 5))


def log_axis(axis: Axis, values: NDArray[np.float64], ticks: Sequence[float] = ()) -> None:
    """Make an axis logarithmic, with plain numbers at `ticks`, or at round values.

    Parameters
    ----------
    axis : Axis
        Horizontal or vertical.
    values : ndarray
        What it has to show, none below 0; if a 0 is among them, the axis begins with a short
        linear part.
    ticks : sequence of float, optional
        Where to put numbers; by default at round values.
    """
    positive = values[values > 0]
    low, high = (positive.min(), positive.max()) if positive.size else (1.0, 1.0)
    high = max(high, low * 2)
    margin = (high / low) ** 0.05
    ends, scale, options = (low / margin, high * margin), "log", {}
    shown = [tick for tick in ticks or _log_ticks(low, high) if ends[0] <= tick <= ends[1]]
    if (values == 0).any():
        start = 10.0 ** math.floor(math.log10(low))
        ends, scale, options = (
            (-start / 5, ends[1]),
            "symlog",
            {"linthresh": start, "linscale": 0.4},
        )
        shown = [0.0, *[tick for tick in shown if tick > start]]
    if isinstance(axis, XAxis):
        axis.axes.set_xscale(scale, **options)
        axis.axes.set_xlim(*ends)
    else:
        axis.axes.set_yscale(scale, **options)
        axis.axes.set_ylim(*ends)
    axis.set_major_locator(FixedLocator(shown))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FixedFormatter([count_text(tick) for tick in shown]))


def _log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten, with what is between them where there are few."""
    steps = (1.0, 2.0, 5.0) if math.log10(high / low) <= 2.5 else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps]
