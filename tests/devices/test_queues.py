"""Streams and events on kinds of devices that the library does not know: named, or refused.

In Python, and in C++, where CUDA's are written by the same value.

There are no such devices. What is written for them can be read without one.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from wrapper_ir import devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

TEXT = """
wir 2
program @queues inference planned

input %x : f32[64] @npu:0
stream 1 @npu:0
event 1
event 2

extern aten::relu(Tensor self) -> Tensor

  record_event 1 @npu:0
  wait_event 1 @npu:0 stream 1
  %a = aten::relu(%x) @npu:0 stream 1 : f32[64] @npu:0
  record_event 2 @npu:0 stream 1
  %b = allocate stream 1 : f32[64] @npu:0
  free %b after [0]
  wait_event 2 @npu:0
  synchronize @npu:0
  free %a
return %x
"""

NAMED = devices.Queues(
    stream="vendor.queues:Line",
    event="vendor.queues:Mark",
    current="vendor.queues:line",
    synchronize="vendor.queues:wait",
    frees_late=True,
)


IN_CPP = devices.CppSide(headers={"vendor.h": "#pragma once\n"}, queues="vendor::Queues")

BODY = """\
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  call.queues->record(1, 0);
  call.line = 1;
  call.queues->wait(1, 1);
  call.queues->enter(1);
  call.line = 2;
  wir::Tensor a{};
  aten_relu({x}, {a});
  call.line = 3;
  call.queues->record(2, 1);
  call.line = 4;
  wir::Tensor b = wir::empty(1, dims_64, dims_1, npu_float32);
  call.line = 5;
  call.queues->record(3, 0);
  call.queues->wait(3, 1);
  b.reset();
  call.line = 6;
  call.queues->wait(2, 0);
  call.line = 7;
  call.queues->synchronize();
  a.reset();
  call.queues->enter(0);
"""


@pytest.fixture
def emitted() -> Iterator[Callable[[devices.Queues | None], list[str]]]:
    made: list[devices.DeviceKind] = []

    def emit(queues: devices.Queues | None) -> list[str]:
        made.append(devices.DeviceKind(type="npu", noun="NPU", plural="NPUs", queues=queues))
        devices.register_device(made[-1])
        source = wir.emit(wir.parse(TEXT)).source
        ast.parse(source)
        return [line.strip() for line in source.splitlines()]

    yield emit
    for kind in made:
        devices.unregister_device(kind)


def test_streams_are_torchs_where_a_kind_says_no_more(
    emitted: Callable[[devices.Queues | None], list[str]],
) -> None:
    lines = emitted(devices.Queues())
    for line in (
        "own_stream_1 = OwnStream(npu_0)",
        "event_1 = torch.Event(npu_0)",
        "callers_stream = torch.npu.current_stream(npu_0)",
        "torch.npu.synchronize(npu_0)",
        "b.record_stream(callers_stream)",
    ):
        assert line in lines


def test_names_of_a_package_are_imported_from_it(
    emitted: Callable[[devices.Queues | None], list[str]],
) -> None:
    lines = emitted(NAMED)
    for line in (
        "from vendor.queues import Line",
        "own_stream_1 = OwnStream(npu_0, Line)",
        "event_1 = Mark(npu_0)",
        "callers_stream = line(npu_0)",
        "wait(npu_0)",
    ):
        assert line in lines
    assert not any("record_stream" in line for line in lines)


def test_without_queues_every_such_line_is_refused(
    emitted: Callable[[devices.Queues | None], list[str]],
) -> None:
    with pytest.raises(wir.WrapperIRError) as caught:
        emitted(None)
    said = str(caught.value)
    assert "cannot render 8 of the program's lines" in said
    assert "work on npu:0 is on the caller's stream alone" in said
    assert "it is on stream 1; work on npu:0" in said
    assert "its memory is used on several streams; work on npu:0" in said
    assert "it puts streams in order; work on npu:0" in said


def in_cpp(text: str, **facts: Any) -> str:
    """What becomes of a program in C++, on a kind of device with these facts."""
    kind = devices.DeviceKind(type="npu", noun="NPU", plural="NPUs", **facts)
    devices.register_device(kind)
    try:
        return wir.emit(wir.parse(text), "cpp").source
    finally:
        devices.unregister_device(kind)


def test_in_cpp_a_class_of_the_vendors_has_them() -> None:
    source = in_cpp(TEXT, cpp=IN_CPP)
    made = "  vendor::Queues queues(call, 0, 1, 3);\n  call.queues = &queues;\n"
    assert f"{made}{BODY}" in source
    assert "#include <wir/queues.h>\n" in source
    late = in_cpp(TEXT, cpp=IN_CPP, queues=NAMED)
    assert "  call.line = 5;\n  b.reset();\n" not in late
    assert "queues->wait(3, 1)" not in late


def test_cudas_are_written_by_the_same_value() -> None:
    source = wir.emit(wir.parse(TEXT.replace("npu:", "cuda:")), "cpp").source
    assert devices.CUDA.cpp is not None
    made = f"  {devices.CUDA.cpp.queues} queues(call, 0, 1, 3);\n  call.queues = &queues;\n"
    assert made + BODY.replace("npu_", "cuda_") in source


def test_in_cpp_the_host_waits_and_regions_are_on_the_callers_stream() -> None:
    text = TEXT.replace(
        "  record_event 2 @npu:0 stream 1\n",
        "  record_event 2 @npu:0 stream 1\n  wait_event 2\n  wait_event 2 @npu:0\n  n = item %i\n",
    )
    text = text.replace("input %x", "symbol n : int\ninput %i : i64[] @npu:0\ninput %x")
    source = in_cpp(text, cpp=IN_CPP)
    read = "  const wir::Int n = wir::integer_item(i);\n"
    waits = "  call.queues->wait_on_host(2);\n  call.line = 5;\n  call.queues->wait(2, 0);\n"
    assert f"{waits}  call.queues->enter(0);\n  call.line = 6;\n{read}" in source


def test_what_cpp_has_no_streams_for_is_refused() -> None:
    with pytest.raises(wir.WrapperIRError, match="C\\+\\+ code runs on the caller's stream alone"):
        in_cpp(TEXT, cpp=devices.CppSide())
    several = TEXT.replace("stream 1 @npu:0\nevent", "stream 1 @npu:0\nstream 2 @npu:1\nevent")
    with pytest.raises(wir.WrapperIRError, match="in C\\+\\+ all streams must be of one device"):
        in_cpp(several, cpp=IN_CPP)
    users = TEXT.replace("event 1\nevent 2", "event 1 user 7\nevent 2", 1)
    with pytest.raises(
        wir.WrapperIRError, match="event 1 is the user's, which only emitted Python"
    ):
        in_cpp(users, cpp=IN_CPP)


def test_in_cpp_a_class_of_the_vendors_looks_up_what_is_the_users() -> None:
    """It is given the number of each stream and event, and one more event, of the program's own."""
    users = TEXT.replace("event 1\nevent 2", "event 1 user 7\nevent 2", 1)
    source = in_cpp(users, cpp=dataclasses.replace(IN_CPP, user_queues="vendor::UserQueues"))
    assert "  vendor::UserQueues queues(call, 0, {-1}, {7, -1, -1});\n" in source
    cuda = wir.emit(wir.parse(users.replace("npu:", "cuda:")), "cpp").source
    assert "  wir::UserGpuQueues queues(call, 0, {-1}, {7, -1, -1});\n" in cuda


@pytest.mark.parametrize("name", ["model.pt2", "model.so", "model"])
def test_what_is_the_users_is_not_exported(tmp_path: Path, name: str) -> None:
    users = TEXT.replace("npu:", "cuda:").replace("event 1\nevent 2", "event 1 user 7\nevent 2", 1)
    with pytest.raises(wir.UnsupportedError, match="an event of the user's is not supported by"):
        wir.export(wir.parse(users), tmp_path / name)
    assert not any(tmp_path.iterdir())


SWITCH = """
wir 2
program @switched inference planned

input %i : i32[1] @cpu
input %x : f32[64] @npu:0
stream 1 @npu:0
event 1
event 2

extern aten::relu(Tensor self) -> Tensor

  record_event 1 @npu:0
  wait_event 1 @npu:0 stream 1
  %a = aten::relu(%x) @npu:0 stream 1 : f32[64] @npu:0
  %b = switch %i with (%x) : f32[64] @npu:0
    case0 (%y : f32[64] @npu:0) {
      %z = aten::relu(%y) @npu:0 : f32[64] @npu:0
      yield %z
    }
  record_event 2 @npu:0 stream 1
  wait_event 2 @npu:0
  free %a
return %b
"""


def test_regions_behind_work_on_a_stream_are_on_the_callers() -> None:
    kind = devices.DeviceKind(type="npu", queues=devices.Queues())
    devices.register_device(kind)
    try:
        source = wir.emit(wir.parse(SWITCH)).source
    finally:
        devices.unregister_device(kind)
    assert "\n    (b,) = branch(x)\n" in source  # and not in the block of the stream
    cpp = in_cpp(SWITCH, cpp=IN_CPP)
    assert "  call.queues->enter(0);\n  call.line = 3;\n" in cpp
    assert '{"body[4]", "switch"' in cpp
