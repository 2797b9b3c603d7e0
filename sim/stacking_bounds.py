"""Kernels: what a node of the tree search for addresses cannot reach, and states known to fail.

Called by ``stacking.py``; all of it is about what is left to place at the last node of the path.
"""

from __future__ import annotations

from .jit import kernel
from .stacking_state import FAR, MIXED, NOT_PLACED, Stack, Tree


@kernel
def has_missed(stack: Stack, tree: Tree, buffer: int) -> bool:
    """Say whether a buffer could have been placed before what was placed last."""
    frame, low = tree.frames[tree.run[0].depth], tree.lowest[buffer]
    return low < frame.address or (low == frame.address and stack.rank[buffer] < frame.rank)


@kernel
def bound_of_missed(stack: Stack, tree: Tree, buffer: int) -> int:
    """Give the lowest address of one that missed its place: it rests on another that is left."""
    found = FAR
    first, end = stack.neighbor_pointer[buffer], stack.neighbor_pointer[buffer + 1]
    for i in range(first, end):
        other = stack.neighbors[i]
        if tree.at[other] == NOT_PLACED:
            found = min(found, tree.bound[other] + stack.size[other])
    return found


@kernel
def bound_all(stack: Stack, tree: Tree) -> None:
    """Bound the addresses of what is left from below, and note the lowest end that is possible."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    here.low = FAR
    for i in range(frame.left, frame.left_end):
        buffer = tree.left[i]
        here.low = min(here.low, tree.lowest[buffer] + stack.size[buffer])
        tree.bound[buffer] = max(tree.lowest[buffer], frame.address)


@kernel
def raise_missed(stack: Stack, tree: Tree) -> bool:
    """Raise the bounds of those that missed their place; say whether all still fit."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    for i in range(frame.left, frame.left_end):
        buffer = tree.left[i]
        if has_missed(stack, tree, buffer):
            low = bound_of_missed(stack, tree, buffer)
            if low + stack.size[buffer] > here.capacity:
                return False
            tree.bound[buffer] = max(tree.bound[buffer], low)
    return True


@kernel
def fill_floors(stack: Stack, tree: Tree) -> None:
    """Let each section have the lowest bound of what is left there, and count what crosses cuts."""
    frame = tree.frames[tree.run[0].depth]
    for section in range(frame.first, frame.end):
        tree.floor[section], tree.cover[section] = FAR, 0
    for i in range(frame.left, frame.left_end):
        buffer = tree.left[i]
        low, first = tree.bound[buffer], stack.first[buffer]
        tree.floor[first] = min(tree.floor[first], low)
        for section in range(first + 1, stack.end[buffer]):
            tree.floor[section] = min(tree.floor[section], low)
            tree.cover[section] += 1


@kernel
def sections_fit(tree: Tree) -> bool:
    """Say whether what is left fits in each section; note how high the next one can be at most."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    here.limit = here.capacity
    for section in range(frame.first, frame.end):
        if tree.load[section] > 0:
            if tree.floor[section] + tree.load[section] > here.capacity:
                tree.failures[section] += 1
                return False
            here.limit = min(here.limit, here.capacity - tree.load[section])
    return True


@kernel
def sort_by_bound(tree: Tree) -> int:
    """Sort what is left by its bounds, the highest first, by Shell's method; give how many."""
    frame = tree.frames[tree.run[0].depth]
    count = frame.left_end - frame.left
    for i in range(count):
        tree.by_bound[i] = tree.left[frame.left + i]
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            buffer, at = tree.by_bound[i], i
            bound = tree.bound[buffer]
            while at >= gap and tree.bound[tree.by_bound[at - gap]] < bound:
                tree.by_bound[at] = tree.by_bound[at - gap]
                at -= gap
            tree.by_bound[at] = buffer
        gap //= 3
    return count


@kernel
def late_ones_fit(stack: Stack, tree: Tree) -> bool:
    """Say whether in each section those that cannot be below an address fit above it, for all."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    for section in range(frame.first, frame.end):
        tree.floor[section] = 0
    for i in range(sort_by_bound(tree)):
        buffer = tree.by_bound[i]
        size, room = stack.size[buffer], here.capacity - tree.bound[buffer]
        for section in range(stack.first[buffer], stack.end[buffer]):
            tree.floor[section] += size
            if tree.floor[section] > room:
                tree.failures[section] += 1
                return False
    return True


@kernel
def state_key(stack: Stack, tree: Tree) -> int:
    """Mix what is left and where it could be lowest into a number that is not 0."""
    frame, key = tree.frames[tree.run[0].depth], 0
    for i in range(frame.left, frame.left_end):
        buffer = tree.left[i]
        mixed = (tree.lowest[buffer] + 1) * stack.code[buffer]
        mixed = (mixed ^ (mixed >> 29)) * MIXED
        key += mixed ^ (mixed >> 31)
    return key if key != 0 else 1


@kernel
def is_known(stack: Stack, tree: Tree) -> bool:
    """Say whether a state that allowed at least as much has failed; else note it as under way."""
    frame = tree.frames[tree.run[0].depth]
    frame.key = state_key(stack, tree)
    failed = tree.failed[frame.key & (len(tree.failed) - 1)]
    if failed.key != frame.key:
        return False
    earlier = failed.address < frame.address
    return earlier or (failed.address == frame.address and failed.rank <= frame.rank)


@kernel
def note_failure(tree: Tree) -> None:
    """Remember that the state of the last node has no solution."""
    frame = tree.frames[tree.run[0].depth]
    if frame.key == 0:
        return
    failed = tree.failed[frame.key & (len(tree.failed) - 1)]
    earlier = frame.address < failed.address
    earlier = earlier or (frame.address == failed.address and frame.rank < failed.rank)
    if failed.key != frame.key or earlier:
        failed.key, failed.address, failed.rank = frame.key, frame.address, frame.rank
