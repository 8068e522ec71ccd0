"""No false alarms: good programs, and those that come near the edge of a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper_ir.text import parse
from wrapper_ir.verify import diagnose

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").rglob("*.wir"))

HEAD = """\
wir 2
program @good inference planned

symbol s0 : int [0, inf] hint 8
symbol s1 : int [1, inf] hint 8
symbol s2 : int [0, inf] hint 8
symbol u0 : int [0, inf] unbacked
input %x : f32[s0, 4] @cpu
input %y : f32[s1] @cpu
input %z : f32[s2] @cpu
input &queue : ns::Queue
object &kept : ns::Queue = "kept"

extern aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)
extern aten::relu(Tensor self) -> Tensor
extern aten::nonzero(Tensor self) -> Tensor

  s0 = size %x, 0
  s1 = size %y, 0
"""

GOOD = {
    "what an object holds is read and written, freed and let go": """
  method ns::Queue.push(__torch__.torch.classes.ns.Queue self, Tensor x) -> NoneType
  method ns::Queue.pop(__torch__.torch.classes.ns.Queue self) -> Tensor
  extern ns::swap(__torch__.torch.classes.ns.Queue? a, __torch__.torch.classes.ns.Queue[] b) -> ()
  %a = allocate zeroed : f32[4] @cpu
  ns::Queue.push(&queue, %a)
  %b = ns::Queue.pop(&queue) : f32[4] @cpu held
  %c = reinterpret %b : f32[2] @cpu
  %d = aten::relu(%c) : f32[2] @cpu
  ns::swap(none, [&queue, &kept])
  free %a
  free %b
  %e = reuse %d : f32[2] @cpu
  free %e
""",
    "reuse of an equal size, written another way": """
  %a = allocate : f32[s0, s1 + 1] @cpu
  %b = reuse %a : f32[s0*s1 + s0] @cpu
  free %b
""",
    "reuse of more than enough, known from ranges": """
  %a = allocate : f32[s1, s1] @cpu
  %b = reuse %a : f32[s1] @cpu
  %c = reuse %b : i32[s1 // 2] @cpu
  free %c
""",
    "reuse by a smaller buffer, then a larger one that fits the storage": """
  %a = allocate : f32[8] @cpu
  %b = reuse %a : f32[2] @cpu
  %c = reuse %b : f64[4] @cpu
  free %c
""",
    "strides that count an empty dimension as one": """
  %a = allocate : f32[s1, s0]{Max(1, s0), 1} @cpu
  %b = reuse %a : f32[s1, s0] @cpu
  %c = reuse %b : f32[s1, s0]{Max(1, s0), 1} @cpu
  free %c
""",
    "a view that is out of bounds only if it is empty": """
  %a = reinterpret %y : f32[0]+99 @cpu
  %b = reinterpret %x : f32[s0, 4]{4, 1} @cpu
  %c = reinterpret %x : f32[4, s0]{1, 4} @cpu
  %d = reinterpret %y : f32[s1 - 1]+1 @cpu
""",
    "an input whose size is never bound is dropped and returned": """
  free %z
""",
    "the size of an op's result is bound from the result": """
  %n = aten::nonzero(%x) : i64[u0, 2] @cpu
  u0 = size %n, 0
  %a = allocate : f32[u0] @cpu
  free %n
  free %a
""",
    "storage that leaves through a view of a view": """
  %a = allocate : f32[s1] @cpu
  %b = aten::view(%a, [s1]) : f32[s1] @cpu alias(%a)
  %c = reinterpret %b : i32[s1] @cpu
""",
    "a slice that leaves takes its pool with it": """
  %p = allocate_pool : u8[4*s1] @cpu
  %c = allocate_from_pool %p[0] : f32[s1] @cpu
""",
    "a pool's bytes again, after the end of the slice that had them": """
  %p = allocate_pool : u8[8*s1] @cpu
  %a = allocate_from_pool %p[0] : f32[s1] @cpu
  %b = allocate_from_pool %p[4*s1] : f32[s1] @cpu
  %a2 = reuse %a : i32[s1] @cpu
  free %b
  %c0 = allocate_from_pool %p[4*s1] : f32[s1] @cpu
  free %a2
  free %c0
  free %p
""",
    "regions compare layouts with the operands in place of their parameters": """
  %a = cond s0 > 2 with (%y, s1) : f32[s1] @cpu
    then (%t : f32[s2] @cpu, s2) {
      %t1 = aten::relu(%t) : f32[s2] @cpu
      yield %t1
    }
    else (%e : f32[s1] @cpu, u0) {
      %e1 = aten::relu(%e) : f32[s1] @cpu
      yield %e1
    }
  free %a
""",
    "a result of a size that only a region knows": """
  %a = cond s0 > 2 with (%x) : i64[u0, 2] @cpu
    then (%t : f32[s0, 4] @cpu) {
      %t1 = aten::nonzero(%t) : i64[s2, 2] @cpu
      s2 = size %t1, 0
      yield %t1
    }
    else (%e : f32[s0, 4] @cpu) {
      %e1 = aten::relu(%e) : i64[s0, 2] @cpu
      yield %e1
    }
  u0 = size %a, 0
  free %a
""",
    "slices whose places a computed symbol holds apart": """
  u0 = compute CeilDiv(4*s0, 64)
  %p = allocate_pool : u8[64*u0 + 4*s1] @cpu
  %a = allocate_from_pool %p[0] : f32[s0] @cpu
  %b = allocate_from_pool %p[64*u0] : f32[s1] @cpu
  free %a
  free %b
  free %p
""",
    "slices whose places an assertion holds apart": """
  s2 = size %z, 0
  assert ToFloat(s2) >= ToFloat(s0), "the first fits below the second"
  %p = allocate_pool : u8[4*s1 + 4*s2] @cpu
  %a = allocate_from_pool %p[0] : f32[s0] @cpu
  %b = allocate_from_pool %p[4*s2] : f32[s1] @cpu
  free %a
  free %b
  free %p
""",
    "slices whose places a size held in two names holds apart": """
  u0 = size %x, 0
  %p = allocate_pool : u8[4*s0 + 4*s1] @cpu
  %a = allocate_from_pool %p[0] : f32[s0] @cpu
  %b = allocate_from_pool %p[4*u0] : f32[s1] @cpu
  free %a
  free %b
  free %p
""",
    "slices of which one is empty where the other is not": """
  u0 = compute Max(0, 1 - s0)
  %p = allocate_pool : u8[4*s0 + 16] @cpu
  %a = allocate_from_pool %p[0] : f32[s0] @cpu
  %b = allocate_from_pool %p[0] : f32[4, u0]{Max(1, u0), 1} @cpu
  free %a
  free %b
  free %p
""",
    "slices that a condition holds apart": """
  s2 = size %z, 0
  cond s2 >= s0
    then () {
      %p = allocate_pool : u8[4*s1 + 4*s2] @cpu
      %a = allocate_from_pool %p[0] : f32[s0] @cpu
      %b = allocate_from_pool %p[4*s2] : f32[s1] @cpu
      free %a
      free %b
      free %p
      yield
    }
    else () {
      yield
    }
""",
    "an op that may be given one buffer twice, and views that only come near each other": """
  extern mylib::reverse_into(Tensor src, Tensor(a!) dst) -> ()
  extern mylib::in_lists(Tensor[] src, Tensor(a!)[] dst) -> ()
  extern mylib::may_be_one(Tensor(a) src, Tensor(a!) dst) -> ()
  extern mylib::in_place(Tensor(a!) x, Tensor(b!) y) -> ()
  %p = allocate zeroed : f32[8, 8] @cpu
  %q = allocate zeroed : f32[8] @cpu
  mylib::reverse_into(%q, inout %p)
  mylib::may_be_one(%p, inout %p)
  mylib::in_place(inout %p, inout %p)
  %left = reinterpret %p : f32[8, 4]{8, 1} @cpu
  %right = reinterpret %p : f32[8, 4]{8, 1}+4 @cpu
  mylib::reverse_into(%left, inout %right)
  mylib::in_lists([%left, %q], [inout %right])
  %even = reinterpret %q : f32[4]{2} @cpu
  %odd = reinterpret %q : f32[4]{2}+1 @cpu
  %halves = reinterpret %q : f16[4]{4}+3 @cpu
  mylib::reverse_into(%even, inout %odd)
  mylib::reverse_into(%even, inout %halves)
  %none = reinterpret %p : f32[0, 8] @cpu
  mylib::reverse_into(%none, inout %none)
  %r = allocate zeroed : f32[s1, 16] @cpu
  %first = reinterpret %r : f32[s1, 8]{16, 1} @cpu
  %second = reinterpret %r : f32[s1, 8]{16, 1}+8 @cpu
  mylib::reverse_into(%first, inout %second)
  %s = allocate zeroed : f32[s1 + 4] @cpu
  %head = reinterpret %s : f32[s1] @cpu
  %end = reinterpret %s : f32[4]+s1 @cpu
  mylib::reverse_into(%head, inout %end)
  free %p
  free %q
  free %r
  free %s
""",
    "what torch's own ops may be given twice, and what torch finds too hard to tell": """
  extern aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
  extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
  extern aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  extern aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, \
Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  extern aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()
  extern aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)
  extern _c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, \
Any group_name, *, Tensor(a!) out) -> Tensor(a!)
  extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
  %p = allocate zeroed : f32[8, 8] @cpu
  %q = allocate zeroed : f32[8, 8] @cpu
  aten::add_.Tensor(inout %p, %p)
  aten::copy_(inout %p, %p)
  aten::mul.out(%p, %p, out=out %p)
  aten::addmm.out(%p, %q, %q, out=out %p)
  aten::_foreach_add_.List([inout %p, inout %q], [%p, %q])
  %upper = reinterpret %p : f32[4, 8] @cpu
  %lower = reinterpret %p : f32[4, 8]+32 @cpu
  %row = reinterpret %p : f32[1, 8]{64, 1} @cpu
  %flat = reinterpret %p : f32[8] @cpu
  aten::add_.Tensor(inout %upper, %lower)
  aten::add_.Tensor(inout %row, %flat)
  %left = reinterpret %p : f32[8, 4]{8, 1} @cpu
  %middle = reinterpret %p : f32[8, 4]{8, 1}+2 @cpu
  aten::copy_(inout %left, %middle)
  aten::set_.source_Tensor(inout %flat, %upper)
  _c10d_functional::all_gather_into_tensor_out(%upper, 2, "default", out=out %p)
  _c10d_functional::wait_tensor(%lower)
  aten::copy_(inout %q, %p)
  free %p
  free %q
""",
    "a donated parameter may be taken by its region": """
  cond s0 > 2 with (inout %y)
    then (%t : f32[s1] @cpu donated) {
      %t1 = reuse %t : f32[s1] @cpu
      free %t1
      yield
    }
    else (%e : f32[s1] @cpu) {
      yield
    }
""",
}


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: file.stem)
def test_the_corpus_breaks_no_rule(file: Path) -> None:
    assert diagnose(parse(file.read_text(encoding="utf-8"))) == ()


@pytest.mark.parametrize("what", GOOD)
def test_no_false_alarm_about(what: str) -> None:
    body = GOOD[what]
    result = "return %c" if "leave" in what else "return"
    found = diagnose(parse(f"{HEAD}{body.strip(chr(10))}\n{result}\n"))
    assert [str(d) for d in found] == []


def test_logical_programs_need_no_ends() -> None:
    text = HEAD.replace("planned", "logical") + "  %a = allocate : f32[s1] @cpu\nreturn\n"
    assert diagnose(parse(text)) == ()
    assert [d.code for d in diagnose(parse(text.replace("logical", "planned")))] == ["WIR1028"]
