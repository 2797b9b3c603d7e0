"""The TraceBuilder: the only constructor of a Trace, and the place where its rules are checked.

It takes one event at a time and rejects the first illegal one, with its source line. It knows
names and whether they are live; tensors, storages and memory are the business of the replay.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TraceError
from ..opcodes import BACKWARD, CALL, CONSTANT, COPY, COPY_FROM, RELEASE
from .trace import Trace

if TYPE_CHECKING:
    import numpy as np

MAX_VALUE = 2**53
REBINDINGS = ("listed", "storage")


class TraceBuilder:
    """Collects events in order and builds a Trace.

    Parameters
    ----------
    name : str
        What tables call the trace.
    source : str, optional
        The file that it comes from; errors start with it.
    rebinding : {"listed", "storage"}, optional
        Which names get the new value of a mutated operand (``Trace.rebinding``).
    times_estimated : bool, optional
        Whether the times are a model's and not measured.

    Notes
    -----
    Every method takes the source line of its event (0: none). A builder that has raised
    ``TraceError`` is of no further use.
    """

    def __init__(
        self,
        name: str,
        source: str = "",
        rebinding: str = "listed",
        times_estimated: bool = False,
    ) -> None:
        if rebinding not in REBINDINGS:
            raise TraceError(f"rebinding {rebinding!r}: it is one of {', '.join(REBINDINGS)}")
        self._name, self._source = name, source
        self._rebinding, self._times_estimated = rebinding, times_estimated
        self._ids: dict[str, int] = {}  # every name ever bound
        self._live: dict[str, int] = {}  # those that are not dropped
        self._bound_at = array("q")
        self._dropped_at: dict[int, int] = {}
        self._codes, self._a, self._b = array("b"), array("i"), array("i")
        self._constant_bytes = array("q")
        self._operators: dict[str, int] = {}
        self._modules: dict[str, int] = {}
        self._operator, self._time_ns, self._workspace = array("i"), array("q"), array("q")
        self._phase, self._module, self._forward = array("b"), array("i"), array("i")
        self._tags, self._line = array("B"), array("i")
        self._arg_ends, self._args = array("q", [0]), array("i")
        self._result_ends, self._results = array("q", [0]), array("i")
        self._result_bytes, self._result_alias = array("q"), array("i")
        self._mutate_ends, self._mutates = array("q", [0]), array("i")

    def constant(self, name: str, size_bytes: int, line: int = 0) -> None:
        """Bind a name to a tensor that no call makes: a weight, an input."""
        if not 0 <= size_bytes <= MAX_VALUE:
            self._fail(line, f"CONSTANT {name!r}: {size_bytes} bytes are not in 0..2^53")
        self._emit(CONSTANT, self._bind(name, line), len(self._constant_bytes))
        self._constant_bytes.append(size_bytes)

    def call(
        self,
        operator: str,
        args: Sequence[str],
        results: Iterable[tuple[str, int, int]],
        time_ns: int,
        *,
        mutates: Sequence[int] = (),
        workspace_bytes: int = 0,
        phase: int = 0,
        module: str = "",
        forward: int = -1,
        tags: int = 0,
        line: int = 0,
    ) -> int:
        """Run an operator on live names; bind its results.

        Parameters
        ----------
        results : iterable of (name, bytes, alias)
            Alias as in ``Trace.result_alias``.

        Returns
        -------
        int
            Index of the call.
        """
        live = self._live
        try:
            self._args.extend([live[name] for name in args])
        except KeyError:
            for name in args:
                self._use(name, "argument", line)
        for name, size_bytes, alias in results:
            self._result_alias.append(alias)
            self._result_bytes.append(size_bytes if alias == -1 else 0)
            self._results.append(self._bind(name, line))
        self._mutates.extend(mutates)
        call = len(self._time_ns)
        self._operator.append(self._operators.setdefault(operator, len(self._operators)))
        self._module.append(self._modules.setdefault(module, len(self._modules)) if module else -1)
        self._time_ns.append(time_ns)
        self._workspace.append(workspace_bytes)
        self._phase.append(phase)
        self._forward.append(forward)
        self._tags.append(tags)
        self._line.append(line)
        self._arg_ends.append(len(self._args))
        self._result_ends.append(len(self._results))
        self._mutate_ends.append(len(self._mutates))
        self._emit(CALL, call, 0)
        return call

    def copy(self, dst: str, src: str, line: int = 0) -> None:
        """Bind another name to the tensor of a live one."""
        source = self._use(src, "SRC", line)
        self._emit(COPY, self._bind(dst, line), source)

    def copy_from(self, dst: str, src: str, line: int = 0) -> None:
        """Let a live name mean the tensor of another live one."""
        self._emit(COPY_FROM, self._use(dst, "DST", line), self._use(src, "SRC", line))

    def release(self, name: str, line: int = 0) -> None:
        """Drop a name; one that was never bound is ignored."""
        dropped = self._live.pop(name, None)
        if dropped is not None:
            self._dropped_at[dropped] = line
            self._emit(RELEASE, dropped, 0)
        elif name in self._ids:
            last = self._dropped_at[self._ids[name]]
            self._fail(
                line, f"RELEASE of {name!r}: no live reference (last released at line {last})"
            )

    def backward(self, line: int = 0) -> None:
        """Mark where the backward pass begins."""
        self._emit(BACKWARD, 0, 0)

    def build(self) -> Trace:
        """Make the Trace."""
        import numpy as np

        if not self._codes:
            self._fail(0, "empty: no instructions")

        def column(values: array[int], dtype: Any) -> Any:
            result = np.array(values, dtype=dtype)
            result.flags.writeable = False
            return result

        instructions: np.ndarray[Any, Any] = np.empty((len(self._codes), 3), dtype=np.int32)
        for index, part in enumerate((self._codes, self._a, self._b)):
            instructions[:, index] = np.array(part)
        instructions.flags.writeable = False
        return Trace(
            name=self._name,
            source=self._source,
            names=tuple(self._ids),
            instructions=instructions,
            constant_bytes=column(self._constant_bytes, np.int64),
            operators=tuple(self._operators),
            modules=tuple(self._modules),
            call_operator=column(self._operator, np.int32),
            call_time_ns=column(self._time_ns, np.int64),
            call_workspace_bytes=column(self._workspace, np.int64),
            call_phase=column(self._phase, np.int8),
            call_module=column(self._module, np.int32),
            call_forward=column(self._forward, np.int32),
            call_tags=column(self._tags, np.uint8),
            call_line=column(self._line, np.int32),
            arg_offsets=column(self._arg_ends, np.int64),
            arg_names=column(self._args, np.int32),
            result_offsets=column(self._result_ends, np.int64),
            result_names=column(self._results, np.int32),
            result_bytes=column(self._result_bytes, np.int64),
            result_alias=column(self._result_alias, np.int32),
            mutate_offsets=column(self._mutate_ends, np.int64),
            mutate_args=column(self._mutates, np.int32),
            rebinding=self._rebinding,
            times_estimated=self._times_estimated,
        )

    def _emit(self, code: int, a: int, b: int) -> None:
        """Append an instruction."""
        self._codes.append(code)
        self._a.append(a)
        self._b.append(b)

    def _bind(self, name: str, line: int) -> int:
        """Give a new name its id."""
        if name in self._ids:
            first = self._bound_at[self._ids[name]]
            self._fail(line, f"{name!r} is bound a second time (first at line {first})")
        self._ids[name] = self._live[name] = len(self._ids)
        self._bound_at.append(line)
        return len(self._ids) - 1

    def _use(self, name: str, role: str, line: int) -> int:
        """Give the id of a live name."""
        found = self._live.get(name)
        if found is None:
            known = self._ids.get(name)
            why = "never defined"
            if known is not None:
                why = f"released at line {self._dropped_at[known]}"
            self._fail(line, f"{role} {name!r}: {why}")
        return found

    def _fail(self, line: int, message: str) -> NoReturn:
        """Reject an event."""
        raise TraceError(message, where=f"{self._source}:{line}" if line else self._source)
