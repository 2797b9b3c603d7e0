"""Sets of buffers and address plans as CSV: the form of MiniMalloc's benchmarks.

A header, then a buffer a line: ``id,lower,upper,size``, and ``alignment`` where it is not 1. A plan
is the same with a column ``offset``, the address. See docs/addresses.md.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NoReturn

import numpy as np

from .buffers import AddressPlan, Buffers, check_plan
from .errors import InputError
from .files import as_cell, from_cell, write_atomically
from .traces.wording import place as shown

NEEDED = ("lower", "upper", "size")
ALL = ("id", *NEEDED, "alignment", "offset")
MOST_BUFFERS = 1_000_000
MOST_DIGITS = 18


def load_buffers(path: str | Path) -> Buffers:
    """Read a set of buffers; a plan's addresses are not looked at.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Buffers

    Raises
    ------
    InputError
        If the file is not one, or a buffer breaks a rule: file, line, value and rule.
    """
    return _load(path)[0]


def load_address_plan(path: str | Path) -> AddressPlan:
    """Read a plan and check it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    AddressPlan

    Raises
    ------
    InputError
        As for `load_buffers`; or there is no column of addresses, or the plan breaks a rule.
    """
    buffers, address = _load(path)
    if address is None:
        raise InputError(f"{shown(str(path))}: no column offset: it has buffers, and no plan")
    plan = AddressPlan(buffers, np.array(address, np.int64))
    try:
        check_plan(plan)
    except InputError as error:
        raise InputError(f"{shown(str(path))}: {error}") from None
    return plan


def save_address_plan(plan: AddressPlan, path: str | Path) -> None:
    """Write a plan.

    Raises
    ------
    OutputError
        If the file cannot be written; then there is none.
    """
    buffers = plan.buffers
    columns = {
        "id": [as_cell(name) for name in buffers.ids],
        "lower": buffers.lower.tolist(),
        "upper": buffers.upper.tolist(),
        "size": buffers.size.tolist(),
        "alignment": buffers.alignment.tolist(),
        "offset": plan.address.tolist(),
    }
    if (buffers.alignment == 1).all():
        del columns["alignment"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    with write_atomically(path) as file:
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))


def _load(path: str | Path) -> tuple[Buffers, list[int] | None]:
    where = shown(str(path))
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{where}: no such file") from None
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{where}: not text: a CSV of buffers is expected") from None
    columns = _columns(csv.reader(io.StringIO(text)), where)
    numbers = {name: column for name, column in columns.items() if name != "id"}
    address = numbers.pop("offset", None)
    try:
        made = Buffers.of(**numbers, ids=columns.get("id"))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return made, address


def _columns(rows: csv._reader, where: str) -> dict[str, list]:  # type: ignore[type-arg,name-defined]
    """Read the header and all rows."""
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        _check_header(header, where)
        columns: dict[str, list] = {name: [] for name in header}  # type: ignore[type-arg]
        for row in rows:
            if not row:
                continue
            line = f"{where}:{rows.line_num}"
            if len(row) != len(header):
                raise InputError(f"{line}: {len(row)} values: the header has {len(header)}")
            for name, value in zip(header, row, strict=True):
                columns[name].append(
                    from_cell(value) if name == "id" else _number(value, name, line)
                )
            if len(columns[header[0]]) > MOST_BUFFERS:
                raise InputError(f"{line}: more than {MOST_BUFFERS:,} buffers")
    except csv.Error as error:
        raise InputError(f"{where}:{rows.line_num}: {error}: not a CSV") from None
    return columns


def _check_header(header: list[str], where: str) -> None:
    def refuse(what: str) -> NoReturn:
        raise InputError(f"{where}:1: {what}: the header of a CSV of buffers is {','.join(ALL[:4])}"
                         ", with alignment and offset if they are known")  # fmt: skip

    for name in header:
        if name not in ALL:
            refuse(f"column {name[:40]!r}")
        if header.count(name) > 1:
            refuse(f"column {name!r} twice")
    for name in NEEDED:
        if name not in header:
            refuse(f"no column {name}")


def _number(text: str, name: str, line: str) -> int:
    digits = text.strip()
    unsigned = digits.removeprefix("-")
    if not (unsigned.isascii() and unsigned.isdigit() and len(unsigned) <= MOST_DIGITS):
        rule = f"a whole number of at most {MOST_DIGITS} digits"
        raise InputError(f"{line}: {name} ({text[:40]!r}): it is {rule}")
    return int(digits)
