"""Kernels: a tree search for addresses below a capacity.

Buffers are placed from the lowest address up: a node places the next one at the lowest address that
those placed before leave it, its children try all that can be next. What a node must not have
passed, and what its parts cannot hold, is cut off. Time is cut into *sections* at which a lifetime
begins or ends. Where nothing that is not placed yet lives across a cut, both sides are searched one
after the other, and the failure of one is that of both.

The ideas are those of MiniMalloc (Moffitt, ASPLOS 2023): canonical order, dominance, inference by
section, dynamic decomposition. What is ours: a buffer that missed its place has to rest on another
one, and failed states are known again by what is left to place.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .jit import Bundle, kernel, shared_kernel

# How a search ends.
FOUND, IMPOSSIBLE, GOING_ON, NO_ROOM = 1, 0, -1, -2
NOT_PLACED, NONE, FAR = -1, -1, 1 << 61
MIXED = 2862933555777941757  # odd, and far from anything regular: mixes keys of states

RUN_FIELDS = np.dtype(
    [("capacity", "i8"), ("depth", "i8"), ("is_entering", "i8"), ("trail", "i8"), ("waiting", "i8"),
     ("low", "i8"), ("limit", "i8"), ("nodes", "i8")],
    align=True,
)  # fmt: skip
# A node of the path: its part of time and where it begins in the stacks.
FRAME_FIELDS = np.dtype(
    [("first", "i8"), ("end", "i8"), ("address", "i8"), ("rank", "i8"), ("next_part", "i8"),
     ("back", "i8"), ("left", "i8"), ("left_end", "i8"), ("choice", "i8"), ("choice_end", "i8"),
     ("next_choice", "i8"), ("placed", "i8"), ("trail", "i8"), ("waiting", "i8"), ("key", "i8")],
    align=True,
)  # fmt: skip
PART_FIELDS = np.dtype(
    [("first", "i8"), ("end", "i8"), ("address", "i8"), ("rank", "i8"), ("next_part", "i8"),
     ("back", "i8")],
    align=True,
)  # fmt: skip
TRAIL_FIELDS = np.dtype([("buffer", "i8"), ("address", "i8")], align=True)
FAILED_FIELDS = np.dtype([("key", "i8"), ("address", "i8"), ("rank", "i8")], align=True)


class Stack(Bundle):
    """The buffers: their sections, sizes, who lives with whom, and the order of preference."""

    first: Any
    end: Any
    size: Any
    alignment: Any
    rank: Any
    by_rank: Any
    neighbor_pointer: Any
    neighbors: Any
    code: Any  # a random number for each

    LAYOUT: ClassVar[dict[str, Any]] = {
        "first": np.int32,
        "end": np.int32,
        "size": np.int64,
        "alignment": np.int64,
        "rank": np.int32,
        "by_rank": np.int32,
        "neighbor_pointer": np.int64,
        "neighbors": np.int32,
        "code": np.int64,
    }


class Tree(Bundle):
    """Where a search is."""

    lowest: Any  # by buffer: the lowest address that those placed leave it
    bound: Any  # by buffer, of those left: no solution below this node has it lower
    at: Any  # addresses
    load: Any  # by section: bytes left to place
    floor: Any  # by section: nothing is placed below from here on
    cover: Any  # by section: buffers left that live across its beginning
    left: Any  # stack of the buffers that are left at each node
    choices: Any  # stack of those that can be next
    frames: Any
    parts: Any  # stack of parts of time that wait
    trail: Any  # what to undo in `lowest`
    failed: Any  # states that have no solution
    run: Any

    LAYOUT: ClassVar[dict[str, Any]] = {
        "lowest": np.int64,
        "bound": np.int64,
        "at": np.int64,
        "load": np.int64,
        "floor": np.int64,
        "cover": np.int32,
        "left": np.int32,
        "choices": np.int32,
        "frames": FRAME_FIELDS,
        "parts": PART_FIELDS,
        "trail": TRAIL_FIELDS,
        "failed": FAILED_FIELDS,
        "run": RUN_FIELDS,
    }


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
                return False
            here.limit = min(here.limit, here.capacity - tree.load[section])
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


@kernel
def split(tree: Tree) -> bool:
    """Cut the part of time of the last node where nothing crosses; say whether it fell apart."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    before, next_part, first = here.waiting, frame.next_part, frame.first
    for section in range(frame.first + 1, frame.end + 1):
        if section < frame.end and tree.cover[section] > 0:
            continue
        if tree.load[section - 1] > 0:
            part = tree.parts[here.waiting]
            part.first, part.end, part.back = first, section, here.depth
            part.address, part.rank, part.next_part = frame.address, frame.rank, next_part
            next_part = here.waiting
            here.waiting += 1
        first = section
    if here.waiting - before > 1:
        return True
    here.waiting = before
    return False


@kernel
def enter_part(stack: Stack, tree: Tree, number: int) -> None:
    """Go on with a part of time that waits."""
    here = tree.run[0]
    part, above = tree.parts[number], tree.frames[here.depth]
    here.depth += 1
    frame = tree.frames[here.depth]
    frame.first, frame.end, frame.back = part.first, part.end, part.back
    frame.address, frame.rank, frame.next_part = part.address, part.rank, part.next_part
    frame.left, frame.choice = above.left_end, above.choice_end
    count = frame.left
    for i in range(len(stack.by_rank)):
        buffer = stack.by_rank[i]
        is_inside = stack.first[buffer] >= part.first and stack.end[buffer] <= part.end
        if is_inside and tree.at[buffer] == NOT_PLACED:
            tree.left[count] = buffer
            count += 1
    frame.left_end = count


@kernel
def list_choices(stack: Stack, tree: Tree) -> None:
    """List what can be next: lowest first, then by rank."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    for i in range(frame.left, frame.left_end):
        buffer = tree.left[i]
        low = tree.lowest[buffer]
        # Above `low` another one that is left would fit below it, and had to come first.
        if low >= here.low or low > here.limit or low + stack.size[buffer] > here.capacity:
            continue
        if has_missed(stack, tree, buffer):
            continue
        at = frame.choice_end
        while at > frame.choice and tree.lowest[tree.choices[at - 1]] > low:
            tree.choices[at] = tree.choices[at - 1]
            at -= 1
        tree.choices[at] = buffer
        frame.choice_end += 1


@shared_kernel
def look(stack: Stack, tree: Tree) -> int:
    """Look at a new node: `FOUND`, or `GOING_ON`, with choices if there are any."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    here.nodes += 1
    frame.placed, frame.key = NONE, 0
    frame.next_choice = frame.choice_end = frame.choice
    frame.trail, frame.waiting = here.trail, here.waiting
    here.is_entering = 0
    if frame.left == frame.left_end:
        if frame.next_part == NONE:
            return FOUND
        enter_part(stack, tree, frame.next_part)
        here.is_entering = 1
        return GOING_ON
    if is_known(stack, tree):
        frame.key = 0
        return GOING_ON
    bound_all(stack, tree)
    if not raise_missed(stack, tree):
        return GOING_ON
    fill_floors(stack, tree)
    if not sections_fit(tree):
        return GOING_ON
    if split(tree):
        enter_part(stack, tree, here.waiting - 1)
        here.is_entering = 1
        return GOING_ON
    list_choices(stack, tree)
    return GOING_ON


@kernel
def put(stack: Stack, tree: Tree, buffer: int) -> None:
    """Place a buffer, raise those that live with it, and go to the node below."""
    here = tree.run[0]
    frame, below = tree.frames[here.depth], tree.frames[here.depth + 1]
    address = tree.lowest[buffer]
    tree.at[buffer], frame.placed = address, buffer
    for section in range(stack.first[buffer], stack.end[buffer]):
        tree.load[section] -= stack.size[buffer]
    for i in range(stack.neighbor_pointer[buffer], stack.neighbor_pointer[buffer + 1]):
        other = stack.neighbors[i]
        unit = stack.alignment[other]
        top = (address + stack.size[buffer] + unit - 1) // unit * unit
        if tree.at[other] == NOT_PLACED and tree.lowest[other] < top:
            row = tree.trail[here.trail]
            row.buffer, row.address = other, tree.lowest[other]
            tree.lowest[other] = top
            here.trail += 1
    below.first, below.end, below.next_part = frame.first, frame.end, frame.next_part
    below.address, below.rank, below.back = address, stack.rank[buffer], here.depth
    below.left, below.choice = frame.left_end, frame.choice_end
    count = below.left
    for i in range(frame.left, frame.left_end):
        if tree.left[i] != buffer:
            tree.left[count] = tree.left[i]
            count += 1
    below.left_end = count
    here.depth += 1
    here.is_entering = 1


@kernel
def take_back(stack: Stack, tree: Tree) -> None:
    """Undo what the last node placed."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    here.waiting = frame.waiting
    if frame.placed == NONE:
        return
    while here.trail > frame.trail:
        here.trail -= 1
        row = tree.trail[here.trail]
        tree.lowest[row.buffer] = row.address
    tree.at[frame.placed] = NOT_PLACED
    for section in range(stack.first[frame.placed], stack.end[frame.placed]):
        tree.load[section] += stack.size[frame.placed]
    frame.placed = NONE


@shared_kernel
def go_back(stack: Stack, tree: Tree) -> bool:
    """Leave a node that has failed for the last choice that can matter; say if there is one."""
    here = tree.run[0]
    back = tree.frames[here.depth].back
    note_failure(tree)
    if back == NONE:
        return False
    while here.depth > back:
        here.depth -= 1
        if here.depth > back:
            take_back(stack, tree)
    return True


def search_tree(stack: Stack, tree: Tree, nodes: int) -> int:
    """Look at so many more nodes: `FOUND`, `IMPOSSIBLE`, `GOING_ON` or `NO_ROOM`."""
    here = tree.run[0]
    end = here.nodes + nodes
    while here.nodes < end:
        if here.is_entering:
            frame = tree.frames[here.depth]
            if frame.left_end + len(stack.size) > len(tree.left):
                return NO_ROOM
            if look(stack, tree) == FOUND:
                return FOUND
            continue
        take_back(stack, tree)
        frame = tree.frames[here.depth]
        if frame.next_choice < frame.choice_end:
            buffer = tree.choices[frame.next_choice]
            frame.next_choice += 1
            put(stack, tree, buffer)
        elif not go_back(stack, tree):
            return IMPOSSIBLE
    return GOING_ON
