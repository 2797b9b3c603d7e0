"""Coverage-guided fuzzing of the readers; run by hand, not by pytest.

    python tests/traces/fuzz_reader.py -runs=1000000 -max_len=4096 FOLDER

``guided_fuzzing.py`` says what that needs and does. What has been found is in ``test_fuzz.py``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["rematsim"]):
    from fuzz_target import check, seeds
from guided_fuzzing import fuzz

LINE_END = b"\n"


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change lines as wholes half of the time: bytes alone seldom give a log again."""
    chance = random.Random(seed)
    lines = data.split(LINE_END)
    for _ in range(chance.randint(1, 3)):
        k = chance.randrange(len(lines))
        match chance.randrange(8):
            case 0:
                lines.insert(k, chance.choice(lines))
            case 1:
                lines.insert(k, chance.choice(SEED_LINES))
            case 2 if len(lines) > 1:
                del lines[k]
            case 3:
                j = chance.randrange(len(lines))
                lines[k], lines[j] = lines[j], lines[k]
            case 4:
                lines[k] = swap_tokens(lines[k], chance)
            case _:
                lines[k] = atheris.Mutate(lines[k], len(lines[k]) + 8)
    return LINE_END.join(lines)[:max_size]


def swap_tokens(line: bytes, chance: random.Random) -> bytes:
    """Put a name or value of another line in place of one of this."""
    mine, other = line.split(b'"'), chance.choice(SEED_LINES).split(b'"')
    mine[chance.randrange(len(mine))] = chance.choice(other)
    return b'"'.join(mine)


SEED_LINES = [line for seed in seeds() for line in seed.split(LINE_END)]


if __name__ == "__main__":
    fuzz(seeds(), check, mutate)
