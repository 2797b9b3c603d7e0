"""A lower bound at one moment of a run, by a linear program; `bounds` says why it holds.

The knapsack of ``bounds.py`` knows what it costs to make a missing storage again from what is
there; here what it is made from has to be held at that moment, too, or be made again itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]
    Bool = NDArray[np.bool_]


MOST_COLUMNS = 40_000  # of a program that is solved: beyond, one takes a minute and not seconds


class StorageUses(NamedTuple):
    """When each storage of a Program is made and read, calls as times.

    Attributes
    ----------
    size, maker, last : ndarray of int64
        Bytes; the call that makes it; the last that reads it, or the number of calls for outputs.
    is_constant, may_go : ndarray of bool
        Whether it is one; whether it can be made again.
    read_storage, read_call : ndarray of int64
        Pairs of a storage and a call that reads it.
    demand : ndarray of int64
        Bytes at each call if all is kept that is read then or later.
    """

    size: Int64
    maker: Int64
    last: Int64
    is_constant: Bool
    may_go: Bool
    read_storage: Int64
    read_call: Int64
    demand: Int64


def least_remat_ns(program: Program, lives: StorageUses, call: int, budget: int) -> float:
    """Give a lower bound of what runs again after a moment, in ns.

    Parameters
    ----------
    program : Program
    lives : StorageUses
        Of the program.
    call : int
        The moment: when it runs for the first time.
    budget : int
        Bytes at that moment.

    Returns
    -------
    float
        What calls before this one cost at least that run again after it; 0 where the solver fails,
        or there are more than `MOST_COLUMNS` storages and calls to look at.

    Notes
    -----
    Of each storage made before: is it *held* at that moment (h), and of each call before: does it
    run again (r)? Both as numbers from 0 to 1. h + r >= 1 for what is read later; r of a call is at
    most h + r of each storage that it reads; what is held fits. The value is worked out anew from
    the dual solution, so that the solver's tolerances do not matter: any such solution gives a
    bound.
    """
    linear = _LinearProgram(program, lives, call, budget)
    return linear.dual_value() if len(linear.cost) <= MOST_COLUMNS else 0.0


class _LinearProgram:
    """Minimize ``cost x`` where ``matrix x >= least`` and ``x`` is from 0 to ``most``."""

    def __init__(self, program: Program, lives: StorageUses, call: int, budget: int) -> None:
        is_read = np.zeros(len(lives.size), np.bool_)
        is_read[lives.read_storage[lives.read_call == call]] = True
        is_old = (lives.maker < call) & ~lives.is_constant & ~is_read
        is_wanted = is_old & (lives.last > call)
        spanning = np.flatnonzero(is_wanted & lives.may_go)
        held = np.flatnonzero(is_old & (lives.may_go | ~is_wanted))
        calls = np.unique(lives.maker[held])
        self.column_of_storage = np.full(len(lives.size), -1)
        self.column_of_storage[held] = np.arange(len(held))
        self.column_of_call = np.full(len(lives.demand) + 1, -1)
        self.column_of_call[calls] = len(held) + np.arange(len(calls))
        self.cost = np.append(np.zeros(len(held)), program.calls["cost_ns"][calls])
        self.most = np.append(np.ones(len(held)), program.calls["is_recomputable"][calls] == 1)
        self.rows: list[tuple[Any, Any, float]] = []  # columns, weights, least
        self._fill(lives, spanning)
        # What is there in any case leaves so much for what may be held.
        room = budget - int(lives.demand[call] - lives.size[spanning].sum())
        self.rows.append((np.arange(len(held)), -lives.size[held].astype(np.float64), -float(room)))

    def _fill(self, lives: StorageUses, spanning: Int64) -> None:
        """Note the rows: what is read later, then what calls read."""
        storage, call = self.column_of_storage, self.column_of_call
        wanted = np.stack([storage[spanning], call[lives.maker[spanning]]], 1)
        is_mine = (call[lives.read_call] >= 0) & (storage[lives.read_storage] >= 0)
        is_mine &= lives.maker[lives.read_storage] != lives.read_call
        read = lives.read_storage[is_mine]
        sources = np.stack(
            [storage[read], call[lives.maker[read]], call[lives.read_call[is_mine]]], 1
        )
        self.rows += [(columns, np.array([1.0, 1.0]), 1.0) for columns in wanted]
        self.rows += [(columns, np.array([1.0, 1.0, -1.0]), 0.0) for columns in sources]

    def dual_value(self) -> float:
        """Solve it, and give what its dual solution proves."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix

        columns = np.concatenate([row[0] for row in self.rows])
        values = np.concatenate([row[1] for row in self.rows])
        pointer = np.cumsum([0, *(len(row[0]) for row in self.rows)])
        matrix = csr_matrix((values, columns, pointer), (len(self.rows), len(self.cost)))
        least = np.array([row[2] for row in self.rows])
        # Bytes and ns are too large for the solver's tolerances.
        scale = np.ones(len(least))
        scale[-1] = 1 / max(1.0, -values[pointer[-2] :].min(initial=0.0))
        unit = max(1.0, self.cost.max(initial=0.0))
        answer = linprog(
            self.cost / unit,
            A_ub=-csr_matrix(matrix.multiply(scale[:, None])),
            b_ub=-least * scale,
            bounds=np.stack([np.zeros(len(self.most)), self.most], 1),
            method="highs",
        )
        if answer.status != 0:
            return 0.0
        dual = np.maximum(-answer.ineqlin.marginals, 0) * scale * unit
        reduced = self.cost - matrix.T @ dual
        return float(dual @ least + (np.minimum(reduced, 0) * self.most).sum())
