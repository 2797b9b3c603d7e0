"""One word for one thing, in commands, columns, figures and code: the glossary of every report.

`docs/glossary.md` is written from it (``make docs-outputs``).
"""

from __future__ import annotations

GLOSSARY = (
    (
        "trace",
        "What a model did in one or more training steps: calls, tensors, times, in order.",
    ),
    (
        "operator, call",
        "A pure function; one execution of it in the trace. Calls are numbered from 0.",
    ),
    (
        "storage",
        "A buffer that takes memory: what is evicted is always a whole storage. Its name is that "
        "of its first tensor.",
    ),
    ("tensor", "What a call makes: a view of one storage."),
    (
        "alias, view",
        "A tensor in the storage of an operand of its call. It has no bytes of its own.",
    ),
    (
        "constant",
        "A tensor that no call of the trace makes: weights, optimizer state, inputs. Pinned.",
    ),
    ("output", "What the program still holds at the end of the trace."),
    (
        "resident, evicted",
        "A storage is in memory; or it was dropped, and can be computed again.",
    ),
    (
        "defined",
        "A tensor that can be read as soon as its storage is resident. Views are undefined by "
        "eviction.",
    ),
    (
        "external reference",
        "The hold of the program that was traced on a tensor. When the last one goes, the "
        "deallocation policy decides.",
    ),
    ("lock", "The engine's hold on a storage while a call that needs it is under way."),
    ("pin", "A lock for good."),
    ("pool", "The storages that could be evicted now: resident, and not locked."),
    (
        "evict",
        "Drop for lack of memory, or because the program let go (eager). Can be computed again.",
    ),
    (
        "banish",
        "Drop for good. What was made from it can then not be computed again, and is pinned.",
    ),
    (
        "rematerialize",
        "Compute an evicted tensor again, and before it whatever of its operands is evicted.",
    ),
    (
        "second copy",
        "A result that was in memory already, while its call makes it once more.",
    ),
    ("workspace", "Memory that a call needs only while it runs."),
    (
        "budget",
        "The bytes that may be taken at once, constants and outputs included. In bytes, or as a "
        "fraction of the unlimited peak.",
    ),
    (
        "unlimited run, unlimited peak",
        "The run without a budget, under banish; its peak: the least memory without computing "
        "anything twice.",
    ),
    ("headroom", "What is to stay free of a budget, for what no trace shows."),
    ("margin", "What a run leaves of the budget."),
    (
        "cost",
        "Time to compute an operator or a storage, in nanoseconds. Never the value of a heuristic.",
    ),
    (
        "heuristic, score",
        "What chooses, while running; the value that it gives a storage. The lowest score goes.",
    ),
    ("staleness", "Time since the last access."),
    (
        "evicted neighborhood",
        "The evicted storages that are reached from a storage through evicted ones only, both "
        "ways.",
    ),
    (
        "class",
        "An approximation of the neighborhood, in which evicted storages are merged and never "
        "split.",
    ),
    (
        "planner, plan",
        "What decides before the run; its list of actions. Also called a static method, or a "
        "schedule.",
    ),
    (
        "slowdown",
        "(the model's own compute + rematerialization + stalls + charged search) / the model's "
        "own compute: 1 or more.",
    ),
    ("overhead", "Slowdown less 1."),
    ("lower bound", "A slowdown that no run within a budget is below."),
    ("gap", "How far a slowdown is above the lower bound."),
    (
        "out of memory (oom)",
        "The status of a run in which a call did not fit although nothing was left to evict.",
    ),
    (
        "thrash (thrashed)",
        "The status of a run whose slowdown exceeded the limit, by default 2, and which was ended.",
    ),
    ("allocated", "Bytes in blocks that are in use; with a memory model that has addresses."),
    ("reserved", "Bytes taken from the device, holes and rounding included."),
    (
        "fragmentation",
        "Bytes that were free when something had to be evicted for a call, over the budget: the "
        "mean over such calls.",
    ),
    ("hole", "A free piece between addresses in use."),
    ("offload, prefetch", "Copy a storage to the host, and back."),
    ("stall", "Time in which compute waits for a copy, or for room that a copy makes."),
    ("phase", "Forward, backward or optimizer."),
)
