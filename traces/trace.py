"""The Trace: what a model did, in names, bytes and nanoseconds, as immutable columns.

It is the raw layer: it says what happened, not how it will be replayed, and knows no file format.
Only ``TraceBuilder`` (``builder.py``) makes one, so every Trace in existence is legal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .provenance import Provenance

    Int8 = NDArray[np.int8]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]
    UInt8 = NDArray[np.uint8]

MAX_VALUE = 2**53  # the largest size in bytes, and the largest time in nanoseconds

# Columns that hold arrays, in the order in which the digest takes them.
DIGEST_ARRAYS = (
    "instructions",
    "constant_bytes",
    "call_operator",
    "call_time_ns",
    "call_workspace_bytes",
    "call_phase",
    "call_module",
    "call_forward",
    "call_tags",
    "arg_offsets",
    "arg_names",
    "result_offsets",
    "result_names",
    "result_bytes",
    "result_alias",
    "mutate_offsets",
    "mutate_args",
)
DIGEST_TEXTS = ("names", "operators", "modules")
KIND_ARRAYS = ("constant_kind", "result_kind")  # in the digest only where a kind is known
ARRAYS = (*DIGEST_ARRAYS, *KIND_ARRAYS, "call_line")
TEXTS = (*DIGEST_TEXTS, "value_kinds")


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What a model did; equal to another if the digests are equal.

    Attributes
    ----------
    name, source : str
        What tables call the trace, and where it was read; neither is part of the digest.
    names : tuple of str
        Every bound name in the order of first binding; a name id is its position.
    instructions : ndarray of int32, shape (n, 3)
        Rows (code, a, b); the codes and their operands are in ``opcodes.py``.
    constant_bytes : ndarray of int64, shape (n_constants,)
        Sizes of the constants.
    operators, modules : tuple of str
        What ``call_operator`` and ``call_module`` index.
    call_operator : ndarray of int32, shape (n_calls,)
        The operator of each call; as are the columns below.
    call_time_ns, call_workspace_bytes : ndarray of int64
        Nanoseconds, and bytes needed only while the call runs.
    call_phase : ndarray of int8
        One of the phases in ``opcodes.py``.
    call_module : ndarray of int32
        Module path, -1 where it is not known.
    call_forward : ndarray of int32
        The forward call that a backward call belongs to, or -1.
    call_tags : ndarray of uint8
        Bits: the tags in ``opcodes.py``.
    call_line : ndarray of int32
        Line of the source, 0 where there is none; not part of the digest.
    arg_offsets, arg_names : ndarray of int64, ndarray of int32
        Operands of call i: ``arg_names[arg_offsets[i]:arg_offsets[i + 1]]``.
    result_offsets, result_names, result_bytes, result_alias : ndarray
        Results of each call, in the same way. ``result_alias``: k >= 0 a view of operand k, -1 its
        own storage, -(k + 2) a view of result k of the same call. A view has 0 bytes.
    mutate_offsets, mutate_args : ndarray of int64, ndarray of int32
        Positions of the operands that each call mutates.
    value_kinds : tuple of str
        What the two columns below index: dtype and shape, as in ``"float32[64,3,224,224]"``.
    constant_kind, result_kind : ndarray of int32
        Kind of each constant and of each result, -1 where it is not known.
    rebinding : str
        Which names get the new value of a mutated operand: ``"listed"`` (the name at that
        position) or ``"storage"`` (every live name of its storage).
    times_estimated : bool
        Whether the times are a model's and not measured.
    provenance : Provenance or None
        Which files it was made of and what was inferred, if it was read; not part of the digest.
    """

    name: str
    source: str
    names: tuple[str, ...]
    instructions: Int32
    constant_bytes: Int64
    operators: tuple[str, ...]
    modules: tuple[str, ...]
    call_operator: Int32
    call_time_ns: Int64
    call_workspace_bytes: Int64
    call_phase: Int8
    call_module: Int32
    call_forward: Int32
    call_tags: UInt8
    call_line: Int32
    arg_offsets: Int64
    arg_names: Int32
    result_offsets: Int64
    result_names: Int32
    result_bytes: Int64
    result_alias: Int32
    mutate_offsets: Int64
    mutate_args: Int32
    value_kinds: tuple[str, ...]
    constant_kind: Int32
    result_kind: Int32
    rebinding: str = "listed"
    times_estimated: bool = False
    provenance: Provenance | None = None

    @classmethod
    def restore(cls, fields: dict[str, Any]) -> Trace:
        """Make again a trace that was stored.

        Parameters
        ----------
        fields : dict
            Every field, and the digest. In place of a field of texts, that field with
            ``packed_`` before it may hold them joined by null characters: taking them apart
            waits until they are asked for.
        """
        trace = object.__new__(cls)
        trace.__dict__.update(fields)
        return trace

    def made_from(self, provenance: Provenance | None) -> Trace:
        """Give the same trace with another provenance; nothing is copied."""
        return self.restore({**self.__dict__, "provenance": provenance})

    def __getattr__(self, name: str) -> tuple[str, ...]:
        """Take texts apart that are packed; called for what the instance does not have yet."""
        packed = self.__dict__.get(f"packed_{name}")
        if name not in TEXTS or packed is None:
            raise AttributeError(f"a Trace has no {name!r}")
        texts = tuple(packed.split("\0"))
        self.__dict__[name] = texts
        return texts

    @property
    def n_names(self) -> int:
        """Names ever bound."""
        return len(self.names)

    @property
    def n_constants(self) -> int:
        """Constants."""
        return len(self.constant_bytes)

    @property
    def n_calls(self) -> int:
        """Operator calls, mutating ones included."""
        return len(self.call_time_ns)

    @property
    def n_instructions(self) -> int:
        """Instructions of every kind."""
        return len(self.instructions)

    def place_of(self, call: int) -> tuple[str, str]:
        """Give a call's module, empty where it is not known, and its operator."""
        module = int(self.call_module[call])
        operator = self.operators[int(self.call_operator[call])]
        return ("" if module < 0 else self.modules[module]), operator

    @property
    def compute_ns(self) -> int:
        """The model's own compute: the sum of the calls' times, nanoseconds."""
        return int(self.call_time_ns.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all but name, source, source lines and provenance."""
        digest = hashlib.sha256(b"rematsim trace 1\0")
        digest.update(f"{self.rebinding} {int(self.times_estimated)}".encode())
        has_kinds = bool(self.value_kinds)
        for field in TEXTS if has_kinds else DIGEST_TEXTS:
            texts: tuple[str, ...] = getattr(self, field)
            lengths = " ".join(str(len(text)) for text in texts)
            digest.update(f"\0{field} {lengths}\0".encode())
            digest.update("".join(texts).encode("utf-8", "surrogatepass"))
        for field in (*DIGEST_ARRAYS, *KIND_ARRAYS) if has_kinds else DIGEST_ARRAYS:
            column: Any = getattr(self, field)
            digest.update(f"\0{field} {column.size}\0".encode())
            digest.update(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        """Say whether both say the same, whatever they are called."""
        return self.digest == other.digest if isinstance(other, Trace) else NotImplemented

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Show what tells traces apart, not the columns."""
        return (
            f"Trace({self.name!r}, n_calls={self.n_calls}, n_constants={self.n_constants}, "
            f"digest={self.digest[:16]!r})"
        )
