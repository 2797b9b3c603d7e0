"""What can go wrong with what a user hands in, as exceptions.

Out of memory, thrashing and their like are results of a run, never exceptions (`result.py`).
Messages follow one pattern: *where: what (value): rule, hint*.
"""

from __future__ import annotations


class RematsimError(Exception):
    """Base class of everything that rematsim raises on purpose."""


class Terminated(BaseException):
    """Asked to end, by a signal; no `SystemExit`, which a user's code may raise as well."""


class InputError(RematsimError, ValueError):
    """Something that the user handed in breaks a rule; the message says where and which."""


class TraceError(InputError):
    """A log or a trace is malformed.

    Parameters
    ----------
    message : str
        What is wrong, with the name, the value and the rule.
    where : str, optional
        File, ``file:line`` or another place, put before the message.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class UsageError(InputError):
    """A parameter, an option or a setting has a value that it cannot have."""


class UnknownNameError(UsageError):
    """A heuristic, policy, format or option of that name, or with that value, does not exist."""


class BudgetError(UsageError):
    """A budget cannot be read, or means nothing."""


class HeuristicError(InputError):
    """A user's heuristic failed, returned no number, or cannot be found."""


class MissingExtraError(RematsimError, ImportError):
    """A feature needs an optional package; the message says which install brings it."""


class OutputError(RematsimError, OSError):
    """A result cannot be written where the user wants it."""


class PlanError(InputError):
    """A schedule, a plan or a plan's file breaks a rule; the message names the first place."""
