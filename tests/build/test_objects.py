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


def test_a_call_may_make_an_object() -> None:
    b = wir.Builder("makes", stage="planned")
    queue = b.object_input("queue", "ns::Queue")
    twin = f"ns::Queue.twin({QUEUE} self) -> {QUEUE}"
    named = b.method(twin, queue, result=wir.build.Result("ns::Queue", name="twin"))
    both = f"ns::pair() -> ({QUEUE}, Tensor)"
    other, x = b.extern(both, results=["ns::Queue", ("f32", [4])])
    assert (named.name, other.name, other.class_name) == ("twin", "object0", "ns::Queue")
    b.method(PUSH, other, x)
    b.free(x)
    b.method(twin, named, result="ns::Queue")
    b.returns()
    text = str(b.build())
    body = text[text.index("  &twin") :]
    assert body == """\
  &twin = ns::Queue.twin(&queue) : ns::Queue
  (&object0, %buf0) = ns::pair() : (ns::Queue, f32[4] @cpu)
  ns::Queue.push(&object0, %buf0)
  free %buf0
  &object1 = ns::Queue.twin(&twin) : ns::Queue
return
"""


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
