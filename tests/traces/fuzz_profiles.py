"""Coverage-guided fuzzing of the readers of profiles; run by hand, not by pytest.

    python tests/traces/fuzz_profiles.py -runs=1000000 -max_len=8192 FOLDER

``guided_fuzzing.py`` says what that needs and does. The first byte of an input chooses the reader:
a kind of ``profile_fuzz.seeds()``, in their order. ONNX models are read without inference of
shapes, which is onnx's and may end the process. What has been found is in ``test_profile_fuzz.py``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["rematsim"]):
    from profile_fuzz import MESSAGES, check, check_joined, recognize_all, seeds
from guided_fuzzing import fuzz
from message_fuzz import changed_message

SEEDS = seeds()
KINDS = sorted(SEEDS)
TRACE = SEEDS["execution"][0]
VALUES = [None, -1, 0, 2**31, 2**63, 10**30, 1.5, "", "cpu", [], {}, [1, 1, 0, 4, 4, "cpu"]]


def try_one(data: bytes) -> None:
    """Read an input with the reader that its first byte chooses."""
    if not data:
        return
    kind = KINDS[data[0] % len(KINDS)]
    recognize_all(data[1:])
    check(kind, data[1:])
    if kind == "kineto":
        check_joined(TRACE, data[1:])


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change documents as documents half of the time: bytes alone seldom give one again."""
    chance = random.Random(seed)
    if data and chance.random() < 0.6:
        if KINDS[data[0] % len(KINDS)] in MESSAGES:
            return (data[:1] + changed_message(data[1:], chance))[:max_size]
        try:
            document = json.loads(data[1:])
            for _ in range(chance.randint(1, 3)):
                change(document, chance)
            return (data[:1] + json.dumps(document).encode())[:max_size]
        except (ValueError, RecursionError):
            pass
    return atheris.Mutate(data, max_size)


def change(document: object, chance: random.Random) -> None:
    """Walk to a random place of a document and change what is there."""
    while isinstance(document, dict | list) and document:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = chance.choice(keys)
        inner = document[key]  # type: ignore[index]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.85:
            document = inner
            continue
        if chance.random() < 0.2:
            del document[key]  # type: ignore[arg-type]
        else:
            document[key] = json.loads(json.dumps(chance.choice(VALUES)))  # type: ignore[index]
        return


if __name__ == "__main__":
    inputs = [bytes([k]) + seed for k, kind in enumerate(KINDS) for seed in SEEDS[kind]]
    fuzz(inputs, try_one, mutate)
