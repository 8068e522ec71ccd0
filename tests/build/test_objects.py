"""Programs with objects of custom classes, built by hand."""

from __future__ import annotations

import pytest

import wrapper_ir as wir

QUEUE = "__torch__.torch.classes.ns.Queue"
PUSH = f"ns::Queue.push({QUEUE} self, Tensor x) -> NoneType"

TEXT = f"""\
wir 2
program @turn inference planned

input &queue : ns::Queue
input %x : f32[4] @cpu
object &kept : ns::Queue = "model.kept"

method {PUSH}
method ns::Queue.pop({QUEUE} self) -> Tensor
extern ns::first(Tensor x, *, {QUEUE}? queue=None) -> Tensor

  assert_layout %x, "input"
  ns::Queue.push(&queue, %x)
  %buf0 = ns::Queue.pop(&kept) : f32[4] @cpu held
  %buf1 = ns::first(%buf0, queue=&kept) : f32[4] @cpu held
  free %buf0
return %buf1
"""


def test_a_builder_makes_what_the_text_says() -> None:
    b = wir.Builder("turn")
    queue = b.object_input("queue", "ns::Queue")
    x = b.input("x", "f32", [4])
    kept = b.object("kept", "ns::Queue", qualified_name="model.kept")
    b.method(PUSH, queue, x)
    y = b.method(f"ns::Queue.pop({QUEUE} self) -> Tensor", kept, result=x)
    schema = f"ns::first(Tensor x, *, {QUEUE}? queue=None) -> Tensor"
    b.returns(b.extern(schema, y, result=x, queue=kept))
    assert str(wir.plan_memory(b.build())) == TEXT


def test_names_and_classes_are_checked_at_the_call() -> None:
    b = wir.Builder("faulty")
    queue = b.object_input("queue", "ns::Queue")
    for call in (
        lambda: b.object_input("queue", "ns::Queue"),
        lambda: b.input("queue", "f32", [4]),
        lambda: b.object("other", "Queue"),
        lambda: wir.Builder("another").method(PUSH, queue, None),
    ):
        with pytest.raises(wir.WrapperIRError, match=r"queue|Queue"):
            call()
