"""What the coverage-guided fuzzers share: a folder of inputs that is filled first, then atheris.

``python tests/traces/fuzz_....py -runs=1000000 -max_len=4096 FOLDER``; they need ``pip install
atheris`` in an environment that has rematsim, with Python up to 3.12. FOLDER keeps the inputs that
reached something new. Whatever else comes out of one than is allowed ends the run, and the input
that did it is written to a file ``crash-...``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import atheris

Mutator = Callable[[bytes, int, int], bytes]


def fuzz(seeds: Sequence[bytes], check: Callable[[bytes], None], mutate: Mutator) -> None:
    """Fill the folder if it is empty, then fuzz."""
    for name in [argument for argument in sys.argv[1:] if not argument.startswith("-")][:1]:
        folder = Path(name)
        folder.mkdir(exist_ok=True)
        if not any(folder.iterdir()):
            for k, seed in enumerate(seeds):
                (folder / f"seed-{k}").write_bytes(seed)
    atheris.Setup(sys.argv, check, custom_mutator=mutate)
    atheris.Fuzz()
