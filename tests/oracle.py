"""A slow, obvious simulator to hold the engine against: plain objects, sets and lists.

It is written from the replay contract alone and shares no code with the package. It is no
place for speed: every score is computed from its definition, every neighbourhood is walked
afresh. What it adds to the contract, so that the engine can be compared on all of its inputs,
is said where it is done (workspaces, views of another result, calls that cannot be repeated,
mutation in place, event rows).

Readings of the contract that the reference rows settle or leave open:

* A constant is a call without parents and without cost, pinned once it has run: it may evict
  others to find its place, and one that finds none ends the run as out of memory.
* A failing run keeps its figures: out of memory, before the call ran; thrashed, after the call
  ran and its parents were unlocked.
* Outputs are put in the order of the first name that ever meant them; two that share that name
  (it was bound again in between) in the order of their creation.
* A storage that a tensor of its own storage has as a parent (a view's root) is no edge; a
  storage may be parent and child of another at once, and is then walked in both directions.
* Creating a storage makes a class of cost 0 for it, and computing it for the first time takes
  its cost from that class as any other time, so that a class can be worth less than nothing.
* Banishing a material storage evicts it first, classes merged and all, and then cuts its edges.
* A parent listed twice that is banished at its first unlocking is not unlocked again.
* A banished storage can come back, when a call is computed again for another of its results. It
  is then material and in the pool like any other (a pin went with the banishing), and once it is
  evicted again its tensors wait for their parents again; but nobody has an edge to it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

CONSTANT, CALL, COPY, COPY_FROM, RELEASE, BACKWARD = range(6)
NOT_REPEATABLE = 2 | 4  # collective, data-dependent
NEVER = float("-inf")
INFINITY = float("inf")
# What the rows of the reference tables hold, and so what everybody has to agree on.
REFERENCE_FIGURES = (
    "status",
    "unlimited_peak_bytes",
    "base_compute_ns",
    "model_ns",
    "remat_ns",
    "clock",
    "peak_bytes",
    "evictions",
    "evict_sha",
)


class OutOfMemoryError(Exception):
    """The pool is empty and the request still does not fit."""


class ThrashedError(Exception):
    """Rematerialization went over its limit."""


class Call:
    """One execution of an operator: its cost, what it reads and what it makes."""

    def __init__(self, number: int, cost: int, workspace: int, repeatable: bool) -> None:
        self.number = number
        self.cost = cost
        self.workspace = workspace
        self.repeatable = repeatable
        self.parents: list[Tensor] = []
        self.results: list[Tensor] = []
        self.mutated: dict[Tensor, Storage] = {}  # result -> the storage that it replaces
        self.last: set[Tensor] = set()  # of these, whose old storage no name means afterwards


class Tensor:
    """A result of a call: a view of its storage, defined or not."""

    def __init__(self, number: int, call: Call, storage: Storage, size: int) -> None:
        self.number = number
        self.call = call
        self.storage = storage
        self.size = size
        self.defined = False
        self.references = 0
        self.first_name = -1


class Node:
    """A member of a union-find class; the root carries the class's running cost."""

    def __init__(self, cost: int) -> None:
        self.parent: Node | None = None
        self.cost = cost


class Storage:
    """A buffer: the unit of eviction."""

    def __init__(self, number: int, root: int, size: int) -> None:
        self.number = number
        self.root = root
        self.size = size
        self.cost = 0
        self.calls: set[Call] = set()
        self.tensors: list[Tensor] = []
        self.material = False
        self.banished = False
        self.pinned = False
        self.constant = False
        self.irreplaceable = False  # made by a call that cannot be repeated, or cut off by banish
        self.locks = 0
        self.last_access: float = NEVER
        self.waiting: set[Tensor] = set()
        self.parents: dict[Storage, None] = {}
        self.children: dict[Storage, None] = {}
        self.node: Node | None = Node(0)

    @property
    def references(self) -> int:
        """External references to any of its tensors."""
        return sum(t.references for t in self.tensors)


class Simulator:
    """One run: the state of the contract's section 2 and its verbs."""

    def __init__(
        self,
        trace: Any,
        heuristic: str,
        budget: int | None,
        deallocation: str,
        slowdown_limit: float | None,
        mutation: str,
    ) -> None:
        self.trace = trace
        self.score = SCORES[heuristic]
        self.budget = budget
        self.deallocation = deallocation
        self.mutation = mutation
        self.base_compute = sum(int(x) for x in trace.call_time_ns)
        self.limit = (
            INFINITY if slowdown_limit is None else (slowdown_limit - 1) * self.base_compute
        )
        self.names: dict[int, Tensor] = {}
        self.storages: list[Storage] = []
        self.tensors: list[Tensor] = []
        self.pool: dict[Storage, None] = {}  # in the order of entering
        self.memory = 0
        self.peak = 0
        self.clock = 1
        self.model = 0
        self.remat = 0
        self.rematerializations = 0
        self.pressure_evictions = 0
        self.revived = 0  # banished storages that came back beside what was recomputed
        self.evaluations = 0
        self.accesses = 0
        self.evictions: list[int] = []
        self.decisions: list[tuple[int, int]] = []  # instruction, root of the victim
        self.events: list[dict[str, Any]] = []
        self.at = 0

    # The program.

    def run(self) -> str:
        """Replay every instruction, then make the outputs; return the status."""
        step: dict[int, Callable[[int, int], None]] = {
            CONSTANT: self.constant,
            CALL: self.call,
            COPY: self.copy,
            COPY_FROM: self.copy_from,
            RELEASE: lambda name, _: self.drop(self.names.pop(name)),
            BACKWARD: lambda _a, _b: None,
        }
        try:
            for op, a, b in self.trace.instructions:
                step[int(op)](int(a), int(b))
                self.at += 1
            self.finish()
        except OutOfMemoryError:
            return "oom"
        except ThrashedError:
            return "thrashed"
        return "ok"

    def constant(self, name: int, ordinal: int) -> None:
        """Make a tensor that needs nothing and costs nothing, for good."""
        call = Call(-1, 0, 0, True)
        self.make(call, [int(self.trace.constant_bytes[ordinal])], [-1])
        self.issue(call)
        self.bind(name, call.results[0])
        call.results[0].storage.constant = True
        self.pin(call.results[0].storage, log=False)

    def call(self, index: int, _: int) -> None:
        """Issue an operator call and bind its results; mutated operands get new tensors."""
        t = self.trace
        repeatable = not int(t.call_tags[index]) & NOT_REPEATABLE
        call = Call(
            index, int(t.call_time_ns[index]), int(t.call_workspace_bytes[index]), repeatable
        )
        operands = section(t.arg_names, t.arg_offsets, index)
        results = section(t.result_names, t.result_offsets, index)
        mutated = section(t.mutate_args, t.mutate_offsets, index)
        call.parents = [self.names[name] for name in operands]
        old = [self.names[operands[m]].storage for m in mutated]
        if t.rebinding == "storage":
            old = [s for s in dict.fromkeys(old) if not s.constant]
        sizes = section(t.result_bytes, t.result_offsets, index)
        aliases = section(t.result_alias, t.result_offsets, index)
        placeholder = not sizes and not old
        self.make(
            call,
            sizes + [s.size for s in old] + [0] * placeholder,
            aliases + [-1] * (len(old) + placeholder),
        )
        new = call.results[len(results) : len(results) + len(old)]
        call.mutated = dict(zip(new, old, strict=True))
        dropped = Counter(self.names[name].storage for name in {operands[m] for m in mutated})
        call.last = {
            t
            for t, s in call.mutated.items()
            if self.trace.rebinding == "storage" or s.references == dropped[s]
            if not s.constant
        }
        self.issue(call)
        for name, tensor in zip(results, call.results, strict=False):
            self.bind(name, tensor)
        if placeholder:
            self.drop(call.results[0])
        elif t.rebinding == "storage":
            self.rebind_storages(call)
        else:
            self.rebind_names([operands[m] for m in mutated], new)

    def rebind_names(self, names: list[int], new: list[Tensor]) -> None:
        """Let each mutated name mean its new tensor, as in the DTR log."""
        for name, tensor in zip(names, new, strict=True):
            before = self.names[name]
            self.bind(name, tensor)
            self.drop(before)

    def rebind_storages(self, call: Call) -> None:
        """Let every live name of a mutated storage mean the new one; its views are derived again.

        A view is derived by a call of no cost that reads the new root, once for all names that
        meant the old view. The new root's first reference is held until the names have it.
        """
        for root, old in call.mutated.items():
            derived = {old.tensors[0]: root}
            for name in sorted(n for n, t in self.names.items() if t.storage is old):
                before = self.names[name]
                if before in derived:
                    derived[before].references += 1
                else:
                    view = Call(call.number, 0, 0, True)
                    view.parents = [root]
                    self.make(view, [0], [0])
                    self.issue(view)
                    derived[before] = view.results[0]
                self.bind(name, derived[before])
                self.drop(before)
            self.drop(root)

    def copy(self, target: int, source: int) -> None:
        """Give a tensor another name."""
        tensor = self.names[source]
        tensor.references += 1
        self.bind(target, tensor)

    def copy_from(self, target: int, source: int) -> None:
        """Bind a name to another tensor: the old one is dropped first."""
        before, after = self.names[target], self.names[source]
        if before is not after:
            self.drop(before)
            after.references += 1
            self.bind(target, after)

    def bind(self, name: int, tensor: Tensor) -> None:
        """Let a name mean a tensor."""
        self.names[name] = tensor
        if tensor.first_name < 0:
            tensor.first_name = name

    def drop(self, tensor: Tensor) -> None:
        """Take one external reference away, and do what the deallocation policy says."""
        tensor.references -= 1
        storage = tensor.storage
        if storage.references > 0:
            return
        if self.banishes(storage):
            self.try_banish(storage)
        elif self.deallocation == "eager" and storage.material and not storage.pinned:
            self.evict(storage, "deallocate")

    def finish(self) -> None:
        """Make every output defined and pin it."""
        outputs = [t for t in self.tensors if t.references > 0]
        for tensor in sorted(outputs, key=lambda t: (t.first_name, t.number)):
            if not tensor.defined:
                self.materialize(tensor, own=False)
            self.pin(tensor.storage)

    # Calls.

    def make(self, call: Call, sizes: list[int], aliases: list[int]) -> None:
        """Create a call's tensors, with their storages, edges and costs."""
        for size, alias in zip(sizes, aliases, strict=True):
            number = len(self.tensors)
            if alias == -1:
                storage = Storage(len(self.storages), number, size)
                self.storages.append(storage)
            else:  # k: a view of operand k; -(k + 2): a view of result k
                origin = call.parents[alias] if alias >= 0 else call.results[-alias - 2]
                storage = origin.storage
            tensor = Tensor(number, call, storage, size if alias == -1 else 0)
            tensor.references = 1
            self.tensors.append(tensor)
            call.results.append(tensor)
            storage.tensors.append(tensor)
            if call not in storage.calls:
                storage.calls.add(call)
                storage.cost += call.cost
            for parent in self.living_parents(call):
                if parent.storage is not storage:
                    storage.parents[parent.storage] = None
                    parent.storage.children[storage] = None
                    parent.storage.waiting.add(tensor)

    def issue(self, call: Call) -> None:
        """Run a call as the model's own work."""
        if not call.repeatable:
            for tensor in call.results:
                tensor.storage.irreplaceable = True
                self.pin(tensor.storage, log=False)
        self.materialize(call.results[0], own=True)
        for tensor in call.results:
            tensor.storage.last_access = self.clock

    def materialize(self, tensor: Tensor, own: bool) -> None:
        """Compute a tensor and, before it, whatever it needs: depth first, without recursion."""
        stack = [self.compute(tensor, own)]
        while stack:
            needed = next(stack[-1], None)
            if needed is None:
                stack.pop()
            else:
                stack.append(self.compute(needed, False))

    def compute(self, tensor: Tensor, own: bool) -> Generator[Tensor, None, None]:
        """Section 3, step by step; yields each tensor that has to be computed first."""
        call = tensor.call
        parents = self.living_parents(call)
        for p in parents:
            if self.deallocation != "banish" or p.storage.references > 0:
                p.storage.last_access = self.clock
        missing = [p for p in parents if not p.defined]
        for p in parents:
            if p.defined:
                self.lock(p.storage)
        for p in missing:
            if not p.defined:
                yield p
            self.lock(p.storage)
        self.make_room(call, parents)
        self.execute(tensor, self.taken_over(call, parents), own)
        for p in parents:
            if p.storage.banished:
                continue
            self.unlock(p.storage)
            if self.banishes(p.storage):
                self.try_banish(p.storage)
        if self.remat > self.limit:
            raise ThrashedError

    def execute(self, tensor: Tensor, taken: dict[Tensor, Storage], own: bool) -> None:
        """Step 4: pass the time, place the results, drop those computed a second time."""
        call = tensor.call
        end = self.clock + call.cost
        if own:
            self.model += call.cost
        else:
            self.remat += call.cost
            self.rematerializations += 1
        known = [r for r in call.results if r.defined]
        for r in call.results:
            if r in taken:
                self.memory -= r.size
                self.log("take_over", storage=taken[r], size=r.size, cause=call)
            self.memory += r.size
            action = "compute" if own else "recompute"
            self.log(action, storage=r.storage, size=r.size, call=call, end=end)
        self.clock = end
        self.peak = max(self.peak, self.memory + call.workspace)
        for r in known:
            self.memory -= r.size
            self.log("drop_duplicate", storage=r.storage, size=r.size, call=call)
        for r in [r for r in call.results if r is not tensor] + [tensor]:
            if not r.defined:
                self.define(r)
        given_up = [old for old in taken.values() if old.pinned]
        for old in taken.values():
            self.vacate(old)
        for (
            old
        ) in given_up:  # it cannot be made again: gone for good, and what was made of it stays
            self.banish(old)

    def define(self, tensor: Tensor) -> None:
        """Note that a tensor has been computed; its storage becomes material if it was not."""
        storage = tensor.storage
        tensor.defined = True
        for p in tensor.call.parents:
            p.storage.waiting.discard(tensor)
        if not storage.material:
            self.revived += storage.banished
            storage.material = True
            assert storage.node is not None
            find(storage.node)[0].cost -= storage.cost
            storage.node = None
            if storage.locks == 0:
                self.pool[storage] = None

    def taken_over(self, call: Call, parents: list[Tensor]) -> dict[Tensor, Storage]:
        """Which new results take over the bytes of the storage that they replace.

        Only with mutation in place, only for a result that is not defined, and only if nobody
        but this call holds a lock on the old storage and the call returns no view of it whose
        name goes on meaning that (it does where rebinding is "listed"). Of two results that
        replace the same storage the first takes it, the second is a copy. A pin on what cannot be
        made again does not count if the program does not hold it after the call and no other
        result waits for it.
        """
        taken: dict[Tensor, Storage] = {}
        if self.mutation == "inplace":
            for result, old in call.mutated.items():
                if self.trace.rebinding == "listed" and any(r.storage is old for r in call.results):
                    continue
                own_locks = sum(p.storage is old for p in parents)
                if old.irreplaceable and result in call.last and old.waiting <= set(call.results):
                    own_locks += old.pinned  # nobody needs it after this call
                free = old.locks == own_locks and old not in taken.values()
                if free and old.material and not result.defined:
                    taken[result] = old
        return taken

    # Memory.

    def request(self, call: Call, parents: list[Tensor]) -> int:
        """Bytes that a call needs beside what is there; an eviction may change what it reuses."""
        taken = self.taken_over(call, parents)
        return call.workspace + sum(r.size for r in call.results if r not in taken)

    def make_room(self, call: Call, parents: list[Tensor]) -> None:
        """Evict the lowest score until a call's results fit."""
        while self.budget is not None and self.memory + self.request(call, parents) > self.budget:
            if not self.pool:
                raise OutOfMemoryError
            victim, score = self.choose()
            self.pressure_evictions += 1
            self.evict(victim, "evict", score=score, cause=call)

    def choose(self) -> tuple[Storage, float]:
        """Scan the pool: the lowest score, the last of equals, the first that is exactly 0."""
        best: Storage | None = None
        lowest = INFINITY
        for storage in self.pool:
            self.evaluations += 1
            self.accesses += 1
            score = self.score(self, storage)
            if score == 0:
                return storage, score
            if best is None or score <= lowest:
                best, lowest = storage, score
        assert best is not None
        return best, lowest

    def evict(self, storage: Storage, action: str, **details: Any) -> None:
        """Drop a material storage, and count it."""
        assert storage.material
        self.vacate(storage)
        self.memory -= storage.size
        self.evictions.append(storage.root)
        self.decisions.append((self.at, storage.root))
        self.log(action, storage=storage, size=storage.size, **details)

    def vacate(self, storage: Storage) -> None:
        """Let a storage be material no more: out of the pool, undefined, in a class again."""
        self.pool.pop(storage, None)
        storage.material = False
        for tensor in storage.tensors:
            tensor.defined = False
            for p in self.living_parents(tensor.call):
                if p.storage is not storage:
                    p.storage.waiting.add(tensor)
        storage.node = Node(storage.cost)
        for other in neighbours(storage):
            if not other.material:
                assert other.node is not None
                merge(storage.node, other.node)

    def lock(self, storage: Storage) -> None:
        """Keep a storage from being evicted."""
        storage.locks += 1
        self.pool.pop(storage, None)

    def unlock(self, storage: Storage) -> None:
        """Take one lock away; with the last, the storage enters the pool at its end."""
        storage.locks -= 1
        if storage.locks == 0 and storage.material:
            self.pool[storage] = None

    def pin(self, storage: Storage, log: bool = True) -> None:
        """Lock for good; once is enough."""
        if not storage.pinned:
            storage.pinned = True
            self.lock(storage)
            if log:
                self.log("pin", storage=storage, size=storage.size)

    # Banishing.

    def banishes(self, storage: Storage) -> bool:
        """Whether banish's rule holds for a storage.

        Under the other policies it does for what cannot be made again: results of calls that
        cannot be repeated, and the storages that banishing one of those has pinned.
        """
        return self.deallocation == "banish" or storage.irreplaceable

    def try_banish(self, storage: Storage) -> None:
        """Banish a storage that neither the program nor a tensor to be computed needs."""
        if not (storage.banished or storage.references > 0 or storage.waiting):
            self.banish(storage)

    def banish(self, storage: Storage) -> None:
        """Let a storage go for good, and pin those computed from it."""
        if storage.material:
            self.evict(storage, "banish")
        else:
            self.log("banish", storage=storage, size=0)
        storage.banished = True
        storage.pinned = False
        storage.locks = 0
        for tensor in storage.tensors:
            for p in tensor.call.parents:
                p.storage.waiting.discard(tensor)
        for child in storage.children:
            if not child.banished:
                child.irreplaceable = True
                self.pin(child)

    def living_parents(self, call: Call) -> list[Tensor]:
        """Return a call's parents without those that were banished."""
        return [p for p in call.parents if not p.storage.banished]

    def log(
        self,
        action: str,
        storage: Storage,
        size: int,
        call: Call | None = None,
        cause: Call | None = None,
        end: int | None = None,
        score: float = float("nan"),
    ) -> None:
        """Append a row of the event log; times count from 0."""
        self.events.append(
            {
                "start_ns": self.clock - 1,
                "end_ns": (self.clock if end is None else end) - 1,
                "action": action,
                "call": -1 if call is None else call.number,
                "storage": storage.number,
                "bytes": size,
                "score": score,
                "cause_call": -1 if cause is None else cause.number,
                "memory_after_bytes": self.memory,
            }
        )


def section(values: Any, offsets: Any, index: int) -> list[int]:
    """Return one row of a ragged table as plain integers."""
    return [int(x) for x in values[int(offsets[index]) : int(offsets[index + 1])]]


# Classes of storages that are not material.


def find(node: Node) -> tuple[Node, int]:
    """Return the root of a node's class and the hops to it; the path is compressed."""
    path = []
    while node.parent is not None:
        path.append(node)
        node = node.parent
    for member in path:
        member.parent = node
    return node, len(path)


def merge(one: Node, other: Node) -> None:
    """Merge the other's class into the class of the one."""
    root, guest = find(one)[0], find(other)[0]
    if root is not guest:
        guest.parent = root
        root.cost += guest.cost


# Neighbourhoods.


def neighbours(storage: Storage) -> Iterator[Storage]:
    """Parents, then children: once as either."""
    yield from (p for p in storage.parents if not p.banished)
    yield from (c for c in storage.children if not c.banished)


def parents_of(storage: Storage) -> Iterable[Storage]:
    """Return the storages that a storage was computed from."""
    return storage.parents


def children_of(storage: Storage) -> Iterable[Storage]:
    """Return the storages computed from a storage."""
    return storage.children


def reach(
    sim: Simulator, storage: Storage, step: Callable[[Storage], Iterable[Storage]]
) -> set[Storage]:
    """Return what is reached from a storage in one direction through storages not material."""
    found: set[Storage] = set()
    frontier = [storage]
    while frontier:
        for other in step(frontier.pop()):
            if other.banished:
                continue
            sim.accesses += 1
            if not other.material and other not in found:
                found.add(other)
                frontier.append(other)
    return found


def total(storages: Iterable[Storage]) -> int:
    """Sum of the costs."""
    return sum(s.cost for s in storages)


# Scores.


def cost_estar(sim: Simulator, s: Storage) -> int:
    """Own cost and that of the evicted ancestors and descendants, summed apart."""
    return s.cost + total(reach(sim, s, parents_of)) + total(reach(sim, s, children_of))


def cost_ancestors(sim: Simulator, s: Storage) -> int:
    """Own cost and that of the evicted ancestors."""
    return s.cost + total(reach(sim, s, parents_of))


def cost_eq(sim: Simulator, s: Storage) -> int:
    """Own cost and that of the distinct classes next to it."""
    roots: dict[Node, None] = {}
    for other in neighbours(s):
        sim.accesses += 1
        if not other.material:
            assert other.node is not None
            root, hops = find(other.node)
            sim.accesses += hops
            roots[root] = None
    return s.cost + sum(root.cost for root in roots)


def cost_local(_: Simulator, s: Storage) -> int:
    """Own cost."""
    return s.cost


def cost_one(_: Simulator, _s: Storage) -> int:
    """No cost at all."""
    return 1


def ratio(numerator: int, *factors: float) -> float:
    """Divide a number by a product, all of them float64; a zero product gives infinity."""
    product = 1.0
    for factor in factors:
        product *= float(factor)
    return INFINITY if product == 0 else float(numerator) / product


Cost = Callable[[Simulator, Storage], int]


def score_by(cost: Cost, size: bool, stale: bool) -> Callable[[Simulator, Storage], float]:
    """Build a score: a cost, over the size or not, over the staleness or not."""

    def score(sim: Simulator, s: Storage) -> float:
        factors: list[float] = [s.size] if size else []
        if stale:
            factors.append(sim.clock - s.last_access)
        return ratio(cost(sim, s), *factors)

    return score


def score_neighborhood(sim: Simulator, s: Storage) -> float:
    """Own cost and that of the set e*, with the latest access in either."""
    around = reach(sim, s, parents_of) | reach(sim, s, children_of)
    latest = max([s.last_access] + [other.last_access for other in around])
    return ratio(s.cost + total(around), s.size, sim.clock - latest)


def ablations() -> dict[str, Callable[[Simulator, Storage], float]]:
    """Return the fifteen ablations that are not random."""
    costs: dict[str, Cost] = {
        "estar": cost_estar,
        "eq": cost_eq,
        "local": cost_local,
        "one": cost_one,
    }
    return {
        f"h_abl_{name}{'_size' * size}{'_stale' * stale}": score_by(cost, size, stale)
        for name, cost in costs.items()
        for size in (False, True)
        for stale in (False, True)
        if name != "one" or size or stale
    }


SCORES: dict[str, Callable[[Simulator, Storage], float]] = {
    "h_DTR": score_by(cost_estar, True, True),
    "h_DTR_eq": score_by(cost_eq, True, True),
    "h_DTR_local": score_by(cost_local, True, True),
    "h_MSPS": score_by(cost_ancestors, True, False),
    "h_LRU": lambda _, s: float(s.last_access),
    "h_size": score_by(cost_one, True, False),
    "h_DTR_neighborhood": score_neighborhood,
    **ablations(),
}


def unlimited_peak(trace: Any, mutation: str = "copy") -> int:
    """Peak of the run without a budget, under banish."""
    simulator = Simulator(trace, "h_LRU", None, "banish", None, mutation)
    assert simulator.run() == "ok"
    return simulator.peak


def replay(
    trace: Any,
    heuristic: str = "h_DTR_eq",
    budget_bytes: int | None = None,
    deallocation: str = "eager",
    slowdown_limit: float | None = 2.0,
    mutation: str = "copy",
) -> dict[str, Any]:
    """Replay a trace and return the figures of the contract's section 6, and the log of it all.

    Parameters
    ----------
    trace : Trace
        Anything with the fields of ``rematsim.traces.Trace``.
    heuristic : str
        One of ``SCORES``.
    budget_bytes : int, optional
        Bytes allowed; none means unlimited.
    deallocation : str
        ``"ignore"``, ``"eager"`` or ``"banish"``.
    slowdown_limit : float, optional
        Compute allowed as a multiple of the model's own; none means no limit.
    mutation : str
        ``"copy"`` or ``"inplace"``.

    Returns
    -------
    dict
        The figures by their column's name; ``victims`` (root tensor numbers), ``decisions``
        (instruction and root of each eviction) and ``events`` (rows) beside them.
    """
    run = Simulator(trace, heuristic, budget_bytes, deallocation, slowdown_limit, mutation)
    status = run.run()
    text = ",".join(str(root) for root in run.evictions)
    return {
        "status": status,
        "unlimited_peak_bytes": unlimited_peak(trace, mutation),
        "base_compute_ns": run.base_compute,
        "model_ns": run.model,
        "remat_ns": run.remat,
        "clock": run.clock,
        "peak_bytes": run.peak,
        "evictions": len(run.evictions),
        "evict_sha": hashlib.sha256(text.encode()).hexdigest()[:16],
        "pressure_evictions": run.pressure_evictions,
        "rematerializations": run.rematerializations,
        "evaluations": run.evaluations,
        "metadata_accesses": run.accesses,
        "revived": run.revived,
        "victims": run.evictions,
        "decisions": run.decisions,
        "events": run.events,
    }
