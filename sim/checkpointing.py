"""What ``torch.utils.checkpoint`` does to some blocks of a model, as a Plan for its plain trace.

The trace is of a run without checkpointing; blocks are module paths. A checkpointed block lets go
of what it makes as soon as its forward pass reads it no more, and keeps its inputs. When the
backward pass first needs something that the block had saved, the block runs again from its inputs,
up to the last call that makes something which is needed; each of these values goes where the plain
run lets it go. What the function itself keeps, a state of the random generator for each block, is
in no trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from .errors import InputError
from .opcodes import PHASE_BACKWARD, PHASE_FORWARD
from .plan import Action, Plan, made_plan
from .program import RELEASE_STORAGE, RETAIN, RUN_CALL, Program
from .schedules import COMPUTE, FREE
from .traces.trace import Trace
from .workload import workload

NEVER = -1


def checkpoint_plan(
    trace: Trace,
    blocks: Sequence[str],
    *,
    saved: Collection[int] = (),
    cached: bool = True,
) -> Plan:
    """Plan what a training step does if ``torch.utils.checkpoint`` is applied to some blocks.

    Parameters
    ----------
    trace : Trace
        Of the step without checkpointing, with module paths.
    blocks : sequence of str
        Paths of modules; none may be inside another.
    saved : collection of int
        Calls of the trace whose results are kept, as a selective policy does: they do not run
        again.
    cached : bool
        As in ``simulation.Options``.

    Returns
    -------
    Plan
        For ``mutation="inplace"``: updates in place are what they are in the run.

    Raises
    ------
    InputError
        If no forward call belongs to a block, or two blocks overlap.
    """
    program = workload(trace, "inplace", cached=cached).program
    actions = _Checkpointing(program, trace, blocks, saved).actions()
    method = f"checkpoint({len(blocks)} blocks)"
    return made_plan(actions, trace.digest, mutation="inplace", trace=trace.name, method=method)


@dataclass
class _Block:
    """A checkpointed block: its calls in the forward pass, and what its backward pass does.

    Attributes
    ----------
    path : str
    first, last : int
        Its calls in the forward pass.
    trigger : int
        The first backward call that needs something which the block saved; -1: none does.
    end : int
        The last backward call of it.
    stop : int
        The last call that makes something which is needed.
    needed : set of int
        Storages that are made again and stay for its backward pass.
    """

    path: str
    first: int
    last: int
    trigger: int = NEVER
    end: int = NEVER
    stop: int = NEVER
    needed: set[int] = field(default_factory=set)


class _Reading:
    """The program's tables as lists, and which block each call belongs to.

    Attributes
    ----------
    parents, results : list
        By call: the tensors that it reads, and that it makes.
    phase, origin : list of int
        By call, as in the program's table.
    is_saved : list of bool
        By call: whether a policy keeps what it makes.
    storage, maker : list of int
        By tensor: its storage, and the call that makes it.
    root : list of int
        By storage: the tensor that it is made as.
    tensors_of : list of list of int
        By storage: the tensors that show it.
    dies_after : list of int
        By storage: the call after which the plain run lets it go; for outputs the number of calls.
    taken_over : dict of int to list of int
        By call: the storages whose bytes it takes, and which nobody holds after it.
    blocks : list of _Block
        In the order of their calls; a block that is called twice is in it twice.
    of_call : list of _Block or None
        By call, of the forward pass.
    of_backward : list of _Block or None
        By call, of the backward pass: whose forward call it belongs to.
    """

    def __init__(
        self, program: Program, trace: Trace, paths: Sequence[str], saved: Collection[int]
    ) -> None:
        calls, tensors = program.calls, program.tensors
        parents = program.parents.tolist()
        self.parents = [
            parents[a:b]
            for a, b in zip(calls["first_parent"].tolist(), calls["end_parent"].tolist(),
                            strict=True)
        ]  # fmt: skip
        self.results = [
            range(a, b)
            for a, b in zip(calls["first_result"].tolist(), calls["end_result"].tolist(),
                            strict=True)
        ]  # fmt: skip
        self.storage: list[int] = tensors["storage"].tolist()
        self.maker: list[int] = tensors["call"].tolist()
        self.root: list[int] = program.storages["root"][:-1].tolist()
        self.phase: list[int] = calls["phase"].tolist()
        self.origin: list[int] = calls["origin"].tolist()
        self.is_saved = [origin in saved for origin in self.origin]
        self.taken_over = self._taken_over(program)
        self.dies_after = self._deaths(program)
        self.tensors_of: list[list[int]] = [[] for _ in self.root]
        for tensor, storage in enumerate(self.storage):
            self.tensors_of[storage].append(tensor)
        self.of_call: list[_Block | None] = [None] * len(self.origin)
        self.of_backward: list[_Block | None] = [None] * len(self.origin)
        self.blocks = self._blocks(trace, paths)
        self._pair(trace)

    def _taken_over(self, program: Program) -> dict[int, list[int]]:
        """Give for each call the storages whose bytes it takes, and which nobody holds after it."""
        tensors = program.tensors
        found: dict[int, list[int]] = {}
        for call, old, ends in zip(
            self.maker, tensors["takes_over"].tolist(), tensors["ends_old"].tolist(), strict=True
        ):
            if old >= 0 and ends:
                found.setdefault(call, []).append(old)
        return found

    def _deaths(self, program: Program) -> list[int]:
        """Follow references: for each storage the call after which it has none left."""
        found, references, call = [len(self.origin)] * len(self.root), [0] * len(self.root), NEVER
        for code, operand in program.instructions.tolist():
            if code == RUN_CALL:
                call = operand
                for tensor in self.results[call]:
                    references[self.storage[tensor]] += 1
            elif code in (RETAIN, RELEASE_STORAGE):
                references[operand] += 1 if code == RETAIN else -1
                if not references[operand]:
                    found[operand] = call
        return found

    def held_until(self, storage: int) -> int:
        """Give the call up to which the program itself holds a storage, if that is seen.

        What is saved lives on, so that nothing tells when the program lets go of it.
        """
        call = self.dies_after[storage]
        return call if call == len(self.origin) or self.is_forward(call) else NEVER

    def is_forward(self, call: int) -> bool:
        """Say whether a call is the model's, in the forward pass."""
        return self.origin[call] >= 0 and self.phase[call] == PHASE_FORWARD

    def _blocks(self, trace: Trace, paths: Sequence[str]) -> list[_Block]:
        """Find the calls of each block: one run of them for each time that the block is called."""
        modules = [*trace.modules, ""]
        found: list[_Block] = []
        open_block: _Block | None = None
        for call in filter(self.is_forward, range(len(self.origin))):
            module = modules[trace.call_module[self.origin[call]]]
            inside = [path for path in paths if f"{module}.".startswith(f"{path}.")]
            if len(inside) > 1:
                raise InputError(f"blocks {inside[0]!r} and {inside[1]!r}: one is in the other")
            if not module and open_block is not None:
                continue  # a view that is derived where it is used
            if not inside:
                open_block = None
            elif open_block is None or open_block.path != inside[0]:
                open_block = _Block(inside[0], call, call)
                found.append(open_block)
            else:
                open_block.last = call
        missing = set(paths) - {block.path for block in found}
        if missing:
            raise InputError(
                f"block {min(missing)!r}: no forward call of {trace.name!r} belongs to it"
            )
        return found

    def _pair(self, trace: Trace) -> None:
        """Tell each call its block, and each block what its backward pass needs."""
        for block in self.blocks:
            for call in filter(self.is_forward, range(block.first, block.last + 1)):
                self.of_call[call] = block
        place = {origin: call for call, origin in reversed(list(enumerate(self.origin)))}
        for call, origin in enumerate(self.origin):
            forward = int(trace.call_forward[origin]) if origin >= 0 else NEVER
            if forward == NEVER or self.phase[call] != PHASE_BACKWARD:
                continue
            own = self.of_call[place[forward]]
            if own is not None:
                self.of_backward[call] = own
                self._note_backward(own, call)

    def _note_backward(self, block: _Block, call: int) -> None:
        block.end = call
        for tensor in self.parents[call]:
            made = self.made_by(tensor)
            is_saved = self.origin[made] < 0 or self.phase[made] == PHASE_FORWARD
            if is_saved and block.trigger == NEVER:
                block.trigger = call
            if self.of_call[made] is block and not self.is_saved[made]:
                block.needed.add(self.storage[tensor])
                block.stop = max(block.stop, made)

    def made_by(self, tensor: int) -> int:
        """Give the call that made a tensor; for a view derived in the backward pass, its source."""
        made = self.maker[tensor]
        root = self.root[self.storage[tensor]]
        is_late_view = self.phase[made] == PHASE_BACKWARD and tensor != root
        return self.maker[root] if is_late_view else made


class _Checkpointing:
    """Follows the program, lets go of what checkpointed blocks make, and runs them again."""

    def __init__(
        self, program: Program, trace: Trace, paths: Sequence[str], saved: Collection[int]
    ) -> None:
        self.program = program
        self.read = _Reading(program, trace, paths, saved)
        self.triggers: dict[int, list[_Block]] = {}
        for block in self.read.blocks:
            self.triggers.setdefault(block.trigger, []).append(block)
        self.free_after = self._ends()
        self.is_resident = [False] * len(self.read.root)
        self.is_defined = [False] * len(self.read.storage)
        self.done: list[Action] = []

    def _ends(self) -> dict[int, list[int]]:
        """Give the storages that go after each call: twice, what checkpointed blocks make."""
        read, inputs, first = self.read, self._inputs(), self._last_reads()
        ends: dict[int, list[int]] = {}
        for storage, dies in enumerate(read.dies_after):
            if (block := self._kept_for(storage)) is not None:
                ends.setdefault(block.end, []).append(storage)
                continue
            held = max(first.get(storage, dies), inputs.get(storage, NEVER))
            for call in {held, max(held, dies)}:
                ends.setdefault(call, []).append(storage)
        return ends

    def _kept_for(self, storage: int) -> _Block | None:
        """Give the block that reads a saved storage again which the plain run lets go before."""
        read = self.read
        made = read.maker[read.root[storage]]
        block = read.of_call[made]
        if block is None or not read.is_saved[made]:
            return None
        return block if read.dies_after[storage] < block.trigger else None

    def _inputs(self) -> dict[int, int]:
        """Give the inputs of checkpointed blocks, and the call up to which these keep them."""
        read, found = self.read, dict[int, int]()
        for block in read.blocks:
            for call in filter(read.is_forward, range(block.first, block.last + 1)):
                for tensor in read.parents[call]:
                    storage = read.storage[tensor]
                    if read.of_call[read.maker[read.root[storage]]] is not block:
                        found[storage] = max(found.get(storage, NEVER), block.end)
        return found

    def _last_reads(self) -> dict[int, int]:
        """Give for what checkpointed blocks make the call up to which others than these need it."""
        read = self.read
        own = {
            storage: block
            for storage, root in enumerate(read.root)
            if (block := read.of_call[read.maker[root]]) is not None
            and not read.is_saved[read.maker[root]]
        }
        last = {s: max(read.maker[read.root[s]], read.held_until(s)) for s in own}
        for call, parents in enumerate(read.parents):
            for storage in {read.storage[tensor] for tensor in parents} & own.keys():
                if self._reads_on(call, own[storage]):
                    last[storage] = max(last[storage], call)
        return last

    def _reads_on(self, call: int, own: _Block) -> bool:
        """Say whether a call reads more than what the block itself saved."""
        read = self.read
        return read.phase[call] != PHASE_BACKWARD or read.of_backward[call] is not own

    def actions(self) -> list[Action]:
        """Give the actions of the plan."""
        for code, call in self.program.instructions.tolist():
            if code == RUN_CALL:
                for block in self.triggers.get(call, ()):
                    self._run_again(block)
                self._run(call)
                self._free_all(self.free_after.get(call, ()))
        return self.done

    def _run(self, call: int) -> None:
        """Compute a call; before it, whatever view it reads that went with its storage."""
        for tensor in self.read.parents[call]:
            if not self.is_defined[tensor]:
                self._run(self.read.maker[tensor])
        for storage in self.read.taken_over.get(call, ()):
            self._free(storage)
        self.done.append((COMPUTE, call))
        for tensor in self.read.results[call]:
            self.is_defined[tensor] = True
            self.is_resident[self.read.storage[tensor]] = True

    def _free(self, storage: int) -> None:
        if self.is_resident[storage]:
            self.is_resident[storage] = False
            self.done.append((FREE, storage))
            for tensor in self.read.tensors_of[storage]:
                self.is_defined[tensor] = False

    def _run_again(self, block: _Block) -> None:
        """Run a block up to where all that its backward pass needs is there.

        What was saved for this alone goes when it has been read.
        """
        read = self.read
        calls = [c for c in range(block.first, block.stop + 1) if read.of_call[c] is block]
        again = [c for c in calls if not read.is_saved[c]]
        made = {read.storage[tensor] for call in again for tensor in read.results[call]}
        kept = block.needed | {storage for storage in made if self.is_resident[storage]}
        saved = {
            read.storage[tensor]
            for call in calls
            if read.is_saved[call]
            for tensor in read.results[call]
            if self._kept_for(read.storage[tensor]) is block
        }
        last: dict[int, int] = {}
        for call in again:
            for tensor in (*read.parents[call], *read.results[call]):
                last[read.storage[tensor]] = call
        for storage in made:
            last[storage] = max(last[storage], min(read.held_until(storage), again[-1]))
        for call in again:
            self._run(call)
            self._free_all(s for s in (made - kept) | saved if last.get(s) == call)

    def _free_all(self, storages: Iterable[int]) -> None:
        for storage in sorted(storages):
            self._free(storage)
