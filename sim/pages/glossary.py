"""What the words of a report mean: one spelling each, as everywhere in rematsim."""

from __future__ import annotations

GLOSSARY = (
    ("storage", "A buffer that takes memory; what is evicted is always a whole storage."),
    ("tensor", "A view of one storage, made by one operator."),
    ("alias", "A tensor that shares the storage of an operand of its operator; it adds no bytes."),
    ("operator, call", "A pure function; one execution of it in the trace."),
    ("constant", "A tensor that no operator can make again, such as a weight; it stays."),
    ("resident, evicted", "Data in memory; dropped, but can be computed again."),
    ("external reference", "Held by the program that was traced."),
    ("pin", "To keep in memory for good."),
    ("evict, banish", "To drop what can be computed again; to drop for ever."),
    ("rematerialize", "To compute an evicted tensor again, and first what it is made of."),
    ("budget", "What may be in memory at once: bytes, or a fraction of the unlimited peak."),
    ("unlimited run", "The run without a budget, under banish: its peak, and its cost."),
    ("cost", "Compute time of an operator or a storage, in nanoseconds."),
    ("score", "What a heuristic says of a storage; the lowest is evicted."),
    ("staleness", "Time since a storage was used last."),
    (
        "evicted neighborhood",
        "The evicted storages that are reached from a storage through evicted ones.",
    ),
    (
        "slowdown",
        "The model's own compute with recomputation, stalls and search, over its own compute: "
        "1 or more.",
    ),
    ("overhead", "The slowdown less 1."),
    ("planner, plan", "What decides before the run; the actions that it decided on."),
    ("lower bound", "A slowdown that no run within the budget is below."),
    ("thrashed", "The slowdown went over the limit, and the run was ended."),
    ("out of memory", "A call did not fit, although nothing was left to evict."),
    ("workspace", "Memory that a call needs only while it runs."),
    ("second copy", "A result that was in memory already, while its call makes it once more."),
)
