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

from .jit import kernel, shared_kernel
from .stacking_bounds import (
    bound_all,
    fill_floors,
    has_missed,
    is_known,
    late_ones_fit,
    note_failure,
    raise_missed,
    sections_fit,
)
from .stacking_state import FOUND, GOING_ON, IMPOSSIBLE, NO_ROOM, NONE, NOT_PLACED, Stack, Tree


@kernel
def chain_parts(tree: Tree, begin: int, next_part: int) -> None:
    """Let the parts from a place on be entered one after the other, the shortest, last, first."""
    end = tree.run[0].waiting
    for i in range(begin + 1, end):
        at = i
        while at > begin and part_length(tree, at - 1) < part_length(tree, at):
            one, other = tree.parts[at - 1], tree.parts[at]
            one.first, other.first = other.first, one.first
            one.end, other.end = other.end, one.end
            at -= 1
    for i in range(begin, end):
        tree.parts[i].next_part = next_part if i == begin else i - 1


@kernel
def part_length(tree: Tree, number: int) -> int:
    """Count the sections of a part of time."""
    return tree.parts[number].end - tree.parts[number].first


@kernel
def split(tree: Tree) -> bool:
    """Cut the part of time of the last node where nothing crosses; say whether it fell apart."""
    here = tree.run[0]
    frame = tree.frames[here.depth]
    before, first = here.waiting, frame.first
    for section in range(frame.first + 1, frame.end + 1):
        if section < frame.end and tree.cover[section] > 0:
            continue
        if tree.load[section - 1] > 0:
            part = tree.parts[here.waiting]
            part.first, part.end, part.back = first, section, here.depth
            part.address, part.rank = frame.address, frame.rank
            here.waiting += 1
        first = section
    if here.waiting - before < 2:
        here.waiting = before
        return False
    chain_parts(tree, before, frame.next_part)
    return True


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
    if not late_ones_fit(stack, tree):
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
