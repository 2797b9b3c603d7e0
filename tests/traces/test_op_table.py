"""Tables of operators and tensors: versions of storages, in-place operators, what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from rematsim.errors import TraceError
from rematsim.opcodes import RELEASE
from rematsim.simulation import simulate
from rematsim.traces.importing import import_trace
from rematsim.traces.loading import load_trace

H100 = Path(__file__).resolve().parents[2] / ".." / "shared" / "files" / "h100"

OPERATORS = """\
OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,InputSize,OutputSize,stage
1,aten::conv2d,[1; 2],[3],10,[8; 4],[16],forward
2,aten::relu_,[3],[3],2,[16],[16],forward
3,aten::view,[3],[4],0,[16],[16],forward
4,aten::sum,[4; 9],[5],3,[16; 0],[1],forward
5,SumBackward,[5; 3],[6; 9],7,[1; 16],[16; 0],backward
7,aten::_foreach_add_,[2; 7; 6; 8],[],1,[4; 2; 4; 2],[],optimizer
"""
TENSORS = """\
Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid
0,1,"[2, 4]",8,4,input,11,0
1,2,[4],4,4,weight,12,0
2,3,[16],16,4,output,13,0
3,4,"[4, 4]",16,4,output,13,0
4,5,[],1,8,output,15,0
5,6,[16],16,4,output,13,0
6,7,[2],2,4,weight,17,0
7,8,[2],2,4,grad,18,0
"""


def files(tmp_path: Path, operators: str = OPERATORS, tensors: str | None = TENSORS) -> list[Path]:
    (tmp_path / "ops.csv").write_text(operators)
    if tensors is None:
        return [tmp_path / "ops.csv"]
    (tmp_path / "tensors.csv").write_text(tensors)
    return [tmp_path / "tensors.csv", tmp_path / "ops.csv"]


def test_a_step_is_read_as_worked_out_by_hand(tmp_path: Path) -> None:
    """Tensor 4 is a view; 6 has the storage id of 3, which is among its operands, so it is one too;
    the lists of the optimizer are (2, 7) and (6, 8), of which the first is mutated."""
    found = import_trace(files(tmp_path))
    trace = found.trace
    assert found.format == "table of operators (CSV)"
    assert trace.name == "ops"
    assert trace.names == ("s11", "s12", "s17", "s18", "s13", "s13.1", "s15", "s13.2")
    assert trace.constant_bytes.tolist() == [32, 16, 8, 8]
    assert trace.result_bytes.tolist() == [64, 0, 8, 0]
    assert trace.result_alias.tolist() == [-1, 0, -1, 1]
    assert trace.mutate_offsets.tolist() == [0, 0, 1, 1, 1, 1, 3]
    assert trace.mutate_args.tolist() == [0, 0, 1]
    assert trace.call_time_ns.tolist() == [10_000, 2_000, 0, 3_000, 7_000, 1_000]
    assert trace.call_phase.tolist() == [1, 1, 1, 1, 2, 3]
    assert trace.call_line.tolist() == [2, 3, 4, 5, 6, 7]
    assert not trace.times_estimated
    released = [trace.names[a] for code, a, _ in trace.instructions if code == RELEASE]
    assert released == ["s13.1", "s15", "s13.2", "s13"]
    assert found.summary.dropped["undefined tensors"] == 2


def test_a_storage_id_that_comes_again_is_another_storage(tmp_path: Path) -> None:
    operators = OPERATORS.splitlines()[:2]
    operators.append("2,aten::sum,[3],[5],1,[16],[1],forward")
    operators.append("3,aten::mul,[5],[6],1,[1],[16],forward")
    found = import_trace(files(tmp_path, "\n".join(operators)))
    assert found.trace.names == ("s11", "s12", "s13", "s15", "s13.1")
    assert found.trace.result_bytes.tolist() == [64, 8, 64]
    assert found.summary.inferred["storage ids used again"] == 1


def test_without_a_table_of_tensors_four_bytes_are_assumed_and_said(tmp_path: Path) -> None:
    found = import_trace(files(tmp_path, tensors=None))
    assert found.trace.result_bytes.tolist() == [64, 64, 4, 64]
    [said] = [k for k in found.summary.inferred if "four bytes" in k]
    assert found.summary.inferred[said] == 8
    assert load_trace(tmp_path / "ops.csv") == found.trace


def row(text: str) -> str:
    return OPERATORS.splitlines()[0] + "\n" + text + "\n"


BROKEN = {
    row("1,f,[1],[2],3,[4],[4]"): "ops.csv:2: 7 columns, where the first line names 8; it may be "
    "cut off",
    row("1,f,1,[2],3,[4],[4],x"): "ops.csv:2: Operator_input '1' is not a list as in [4; 6]",
    row(
        "1,f,[a],[2],3,[4],[4],x"
    ): "ops.csv:2: Operator_input 'a' is not an integer from 0 to 2^53",
    row("1,f,[1],[2],-3,[4],[4],x"): "ops.csv:2: Operator_cudatime '-3' is not an integer from 0 "
    "to 2^53",
    row("1,f,[1; 2],[2],3,[4],[4],x"): "ops.csv:2: 'f': 2 tensors and 1 sizes",
    row(f"1,f,[1],[2],{2**52},[4],[4],x"): f"ops.csv:2: Operator_cudatime '{2**52}': more than "
    "2^53 ns",
    row(""): "ops.csv: no instructions: the trace is empty",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_table_is_refused_with_its_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        import_trace(files(tmp_path, text))
    assert str(caught.value) == f"{tmp_path}/{BROKEN[text]}"


def test_a_broken_table_of_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"tensors.csv:3: TensorNumElement 'x' is not an integer"):
        import_trace(files(tmp_path, tensors=TENSORS.replace("[4],4,4", "[4],x,4")))
    with pytest.raises(TraceError, match=r"a table of tensors is no trace by itself; give the op"):
        load_trace(files(tmp_path)[0])


def test_a_table_of_tensors_of_another_run_is_refused(tmp_path: Path) -> None:
    """Told by the numbers of elements, which both have; a few may differ, and are counted."""
    other = TENSORS.replace(",16,4,", ",17,4,").replace(",4,4,weight", ",5,4,weight")
    with pytest.raises(
        TraceError, match=r"tensors.csv: of 16 operands .* 11 .* the tables are of different runs"
    ):
        import_trace(files(tmp_path, tensors=other))
    counts = import_trace(files(tmp_path)).summary.inferred
    assert counts["sizes of the table of tensors that are not the operators'"] == 1


def test_what_does_not_belong_to_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n")
    with pytest.raises(TraceError, match=r"other.csv: none of the formats that rematsim reads"):
        import_trace([*files(tmp_path), tmp_path / "other.csv"])


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_bytes(OPERATORS.encode() + b"\xff\n")
    with pytest.raises(TraceError, match=r"ops.csv: no text in UTF-8"):
        load_trace(tmp_path / "ops.csv")


@pytest.mark.skipif(not H100.exists(), reason=f"there is no {H100}")
def test_real_tables_of_two_runs_are_refused() -> None:
    with pytest.raises(TraceError, match="166 have another number of elements"):
        import_trace([H100 / "vgg13.trace.csv.gz", H100 / "resnet50.tensor.csv.gz"])


@pytest.mark.skipif(not H100.exists(), reason=f"there is no {H100}")
@pytest.mark.parametrize(
    ("name", "calls", "compute_us"), [("vgg13", 77, 94_462), ("resnet50", 396, 83_309)]
)
def test_real_tables_are_read(name: str, calls: int, compute_us: int) -> None:
    paths = [H100 / f"{name}.trace.csv.gz", H100 / f"{name}.tensor.csv.gz"]
    trace = import_trace(paths).trace
    assert (trace.n_calls, trace.compute_ns) == (calls, compute_us * 1_000)
    assert simulate(trace).status == "ok"
