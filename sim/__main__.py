"""``python -m rematsim``: the same as the command ``rematsim``."""

from __future__ import annotations

from .cli.main import run

if __name__ == "__main__":
    run()
