"""Streams and events on kinds of devices that the library does not know: named, or refused.

There are no such devices. What is written for them can be read without one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from wrapper_ir import devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    assert said.count("work on npu:0 is on the caller's stream alone") == 8
    assert "it is on stream 1; work on npu:0" in said
    assert "its memory is used on several streams; work on npu:0" in said
    assert "it puts streams in order; work on npu:0" in said
