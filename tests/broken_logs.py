"""Broken DTR logs, each with the message that it must give; the file is called ``log``."""

from __future__ import annotations

from dtr_logs import BACKWARD, START, call, constant, copy, copy_from, line, log, mutate, release

KNOWN = "ANNOTATE, CONSTANT, MEMORY, ALIAS, CALL, MUTATE, COPY, COPY_FROM, RELEASE"
X = constant("x")
RELU = call("relu", ["x"], ["y"])
LONG = "n" * 300

BROKEN = {
    # The file.
    "empty": (b"", "log: no instructions: the trace is empty"),
    "only blank lines": (b"\n \n\n", "log: no instructions: the trace is empty"),
    "nothing after START": (log(START), "log: no instructions: the trace is empty"),
    "not JSON": (
        b"once upon a time\n",
        "log:1: not JSON (...)",
    ),
    "not JSON, later": (
        log(START, X, "}"),
        "log:4: not JSON (...)",
    ),
    "cut off in a line": (
        log(START, X, RELU)[:-20],
        "log:6: not JSON (...); the file ends in the middle of it, it may be cut off",
    ),
    "cut off after CALL": (
        log(START, X, line("CALL", NAME="relu", ARGS=["x"], RESULT=["y"], TIME=1)),
        "log:4: CALL 'relu' at line 4: the log ends before MEMORY of 'y'; it may be cut off",
    ),
    "cut off after MEMORY": (
        log(START, X, RELU).rsplit(b"\n", 2)[0],
        "log:4: CALL 'relu' at line 4: the log ends before ALIAS of 'y'; it may be cut off",
    ),
    "cut off after CONSTANT": (
        log(line("CONSTANT", NAME="x")),
        "log:1: CONSTANT 'x' at line 1: the log ends before MEMORY of 'x'; it may be cut off",
    ),
    "not UTF-8": (
        log(START) + b'{"INSTRUCTION":"RELEASE","NAME":"\xff"}\n',
        "log:2: not JSON (...)",
    ),
    "UTF-16": (
        log(START, X).decode().encode("utf-16"),
        "log:1: not JSON (...)",
    ),
    "nested too deeply": (
        log(START, X) + b'{"INSTRUCTION":"RELEASE","NAME":"x","MORE":' + b"[" * 100_000 + b"\n",
        "log:4: not JSON (...)",
    ),
    "two on a line": (
        log(START, X, release("x") + release("x")),
        "log:4: not JSON (...)",
    ),
    # The line.
    "an array": (log("[1, 2]"), "log:1: not an instruction: [1, 2] is no JSON object"),
    "no INSTRUCTION": (log('{"NAME": "x"}'), "log:1: not an instruction: no INSTRUCTION"),
    "unknown instruction": (
        log(START, line("GATHER", NAME="x")),
        f"log:2: unknown instruction 'GATHER'; known: {KNOWN}",
    ),
    "instruction of the wrong type": (
        log('{"INSTRUCTION": 7}'),
        f"log:1: unknown instruction 7; known: {KNOWN}",
    ),
    "no NAME": (log(line("RELEASE")), "log:1: RELEASE: no NAME"),
    "no TIME": (
        log(X, line("CALL", NAME="f", ARGS=[], RESULT=["y"])),
        "log:3: CALL 'f': no TIME",
    ),
    "NAME of the wrong type": (
        log(line("RELEASE", NAME=5)),
        "log:1: RELEASE: NAME 5 is not a string",
    ),
    "ARGS of the wrong type": (
        log(X, line("CALL", NAME="f", ARGS="x", RESULT=["y"], TIME=1)),
        "log:3: CALL 'f': ARGS 'x' is not an array of strings",
    ),
    "an ARG of the wrong type": (
        log(X, call("f", ["x", 3], ["y"])),
        "log:3: CALL 'f': ARGS ['x', 3] is not an array of strings",
    ),
    "unknown phase": (
        log(X, call("f", ["x"], ["y"], PHASE="sideways")),
        "log:3: CALL 'f': PHASE 'sideways' is none of fwd, bwd, opt",
    ),
    # Numbers.
    "negative size": (
        log(START, constant("x", "-1")),
        "log:3: MEMORY of 'x': '-1' is not an integer from 0 to 2^53",
    ),
    "huge size": (
        log(START, constant("x", 2**53 + 1)),
        "log:3: MEMORY of 'x': 9007199254740993 is not an integer from 0 to 2^53",
    ),
    "size with a fraction": (
        log(START, constant("x", 0.5)),
        "log:3: MEMORY of 'x': 0.5 is not an integer from 0 to 2^53",
    ),
    "size that is no number": (
        log(START, constant("x", "many")),
        "log:3: MEMORY of 'x': 'many' is not an integer from 0 to 2^53",
    ),
    "size that is a truth value": (
        log(START, constant("x", True)),
        "log:3: MEMORY of 'x': true is not an integer from 0 to 2^53",
    ),
    "no size": (
        log(START, constant("x", None)),
        "log:3: MEMORY of 'x': null is not an integer from 0 to 2^53",
    ),
    "negative time": (
        log(X, call("f", ["x"], ["y"], time=-5)),
        "log:3: CALL 'f': TIME -5 is not an integer from 0 to 2^53",
    ),
    "huge time": (
        log(X, call("f", ["x"], ["y"], time="9" * 30)),
        "log:3: CALL 'f': TIME '999999999999999999999999999999' is not an integer from 0 to 2^53",
    ),
    "endless integer": (
        log(START) + b'{"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":' + b"9" * 5000 + b"}\n",
        "log:2: not JSON (...)",
    ),
    "sizes add up to too much": (
        log(*(constant(f"x{k}", 2**53) for k in range(513))),
        "log: all sizes together (4.62e+18) are more than 2^60",
    ),
    # Names.
    "bound twice by CONSTANT": (
        log(START, X, X),
        "log:4: CONSTANT 'x' is bound already at line 2, and a name is bound once",
    ),
    "bound twice by CALL": (
        log(START, X, RELU, call("exp", ["x"], ["y"])),
        "log:7: CALL 'exp': RESULT 'y' is bound already at line 4, and a name is bound once",
    ),
    "bound twice in one CALL": (
        log(X, call("f", ["x"], ["y", "y"])),
        "log:3: CALL 'f': RESULT 'y' is bound already, and a name is bound once",
    ),
    "bound twice by COPY": (
        log(X, copy("x2", "x"), copy("x2", "x")),
        "log:4: COPY: DST 'x2' is bound already at line 3, and a name is bound once",
    ),
    "bound again after its release": (
        log(X, release("x"), X),
        "log:4: CONSTANT 'x' is bound already at line 1, and a name is bound once",
    ),
    "used before its definition": (
        log(START, RELU, X),
        "log:2: CALL 'relu': argument 'x' is not defined",
    ),
    "defined only in the warm-up": (
        log(X, START, RELU),
        "log:4: CALL 'relu': argument 'x' is not defined; "
        "what stands before the first START is warm-up, and skipped",
    ),
    "used after its release": (
        log(START, X, release("x"), RELU),
        "log:5: CALL 'relu': argument 'x' has no live reference (released at line 4)",
    ),
    "mutated after its release": (
        log(X, release("x"), mutate(["x"], [0])),
        "log:4: MUTATE 'add_': argument 'x' has no live reference (released at line 3)",
    ),
    "copied before its definition": (log(copy("y", "x")), "log:1: COPY: SRC 'x' is not defined"),
    "copied after its release": (
        log(X, release("x"), copy("y", "x")),
        "log:4: COPY: SRC 'x' has no live reference (released at line 3)",
    ),
    "COPY_FROM to an unknown name": (
        log(X, copy_from("y", "x")),
        "log:3: COPY_FROM: DST 'y' is not defined",
    ),
    "COPY_FROM to a dropped name": (
        log(X, constant("y"), release("y"), copy_from("y", "x")),
        "log:6: COPY_FROM: DST 'y' has no live reference (released at line 5)",
    ),
    "COPY_FROM of an unknown name": (
        log(X, copy_from("x", "y")),
        "log:3: COPY_FROM: SRC 'y' is not defined",
    ),
    "released twice": (
        log(START, X, RELU, release("y"), BACKWARD, release("y")),
        "log:9: RELEASE of 'y': no live reference (last released at line 7)",
    ),
    "name that breaks the line": (
        log(constant("a\nb\x00"), release("a\nb\x00"), release("a\nb\x00")),
        r"log:4: RELEASE of 'a\nb\x00': no live reference (last released at line 3)",
    ),
    "name that is too long to show": (
        log(constant(LONG), release(LONG), release(LONG)),
        f"log:4: RELEASE of {LONG[:40]!r}... (300 characters): no live reference "
        "(last released at line 3)",
    ),
    # Calls.
    "alias out of range": (
        log(X, call("view", ["x"], ["y"], alias="1")),
        "log:3: CALL 'view': ALIAS 1 of 'y' is neither -1 nor an index into 1 ARGS",
    ),
    "alias of nothing": (
        log(call("view", [], ["y"], alias=0)),
        "log:1: CALL 'view': ALIAS 0 of 'y' is neither -1 nor an index into 0 ARGS",
    ),
    "negative alias": (
        log(X, call("view", ["x"], ["y"], alias="-2")),
        "log:5: ALIAS of 'y': '-2' is neither -1 nor the index of an argument",
    ),
    "call without results": (
        log(X, call("f", ["x"], [])),
        "log:3: CALL 'f': no RESULT; a call has at least one",
    ),
    "no MEMORY": (
        log(START, line("CONSTANT", NAME="x"), release("x")),
        "log:3: RELEASE, where MEMORY of 'x' is expected: it follows CONSTANT 'x' at line 2",
    ),
    "no ALIAS": (
        log(X, "\n".join(RELU.split("\n")[:2]), release("y")),
        "log:5: RELEASE, where ALIAS of 'y' is expected: it follows CALL 'relu' at line 3",
    ),
    "MEMORY of another name": (
        log(line("CONSTANT", NAME="x"), line("MEMORY", NAME="y", MEMORY=1)),
        "log:2: MEMORY, where MEMORY of 'x' is expected: it follows CONSTANT 'x' at line 1",
    ),
    "MEMORY of its own": (
        log(X, line("MEMORY", NAME="x", MEMORY=1)),
        "log:3: MEMORY of 'x': no CONSTANT or CALL before it that it belongs to",
    ),
    "ALIAS of a constant": (
        log(X, line("ALIAS", NAME="x", ALIAS=-1)),
        "log:3: ALIAS of 'x': no CONSTANT or CALL before it that it belongs to",
    ),
    "nothing mutated": (
        log(X, mutate(["x"], [])),
        "log:3: MUTATE 'add_': neither a result nor a mutated operand",
    ),
    "mutated operand out of range": (
        log(X, mutate(["x"], [1])),
        "log:3: MUTATE 'add_': mutated operand 1 is not an index into 1 ARGS",
    ),
    "negative mutated operand": (
        log(X, mutate(["x"], [-1])),
        "log:3: MUTATE 'add_': [-1] is not an array of indices of arguments",
    ),
    "operand mutated twice": (
        log(X, mutate(["x", "x"], [1, 1])),
        "log:3: MUTATE 'add_': mutated operand 1 is listed twice",
    ),
    "own key of the wrong type": (
        log(X, call("f", ["x"], ["y"], REMATSIM_TAGS=8)),
        "log:3: CALL 'f': REMATSIM_TAGS 8 is not an integer from 0 to 7",
    ),
    "forward call that has not happened": (
        log(X, call("f", ["x"], ["y"], REMATSIM_FORWARD=0)),
        "log:3: CALL 'f': forward call 0 is not in -1..-1",
    ),
}
