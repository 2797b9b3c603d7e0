"""Coverage-guided fuzzing of the readers of all formats; run by hand, not by pytest.

    python tests/traces/fuzz_formats_guided.py -runs=1000000 -max_len=4096 FOLDER

``guided_fuzzing.py`` says what that needs and does; what is checked is in ``fuzz_formats.py``.
``fuzz_reader.py`` does more for DTR logs, ``fuzz_profiles.py`` for profiles.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["rematsim"]):
    from fuzz_formats import SEPARATOR, check, seeds
    from rematsim.traces.importers.registry import READERS, load_reader

    for module in READERS:  # imported later, they would not be followed
        load_reader(module)
from guided_fuzzing import fuzz

TOKEN = re.compile(rb'[\[\]{},:;"\n\0]|[^\[\]{},:;"\n\0]+')
ODD = [b"-1", b"0", b"1e309", b"9007199254740993", b"null", b"[]", b"{}", b'""', b"\0" * 8]
TOKENS = sorted({token for seed in seeds() for token in TOKEN.findall(seed)}) + ODD


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change tokens as wholes half of the time: bytes alone seldom give a file again."""
    chance = random.Random(seed)
    if SEPARATOR in data or chance.random() < 0.5:
        return atheris.Mutate(data, max_size)
    tokens = TOKEN.findall(data) or [b""]
    for _ in range(chance.randint(1, 3)):
        k = chance.randrange(len(tokens))
        match chance.randrange(4):
            case 0:
                tokens.insert(k, chance.choice(TOKENS))
            case 1 if len(tokens) > 1:
                del tokens[k]
            case 2:
                tokens[k:k] = tokens[k : k + chance.randint(1, 30)]
            case _:
                tokens[k] = chance.choice(TOKENS)
    return b"".join(tokens)[:max_size]


if __name__ == "__main__":
    fuzz(seeds(), check, mutate)
