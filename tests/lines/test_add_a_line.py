"""The page ``docs/add-a-line.md``, carried out in a copy of the tree."""

from __future__ import annotations

import ast
import shutil
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.pages import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "add-a-line.md"

TRY = """
import sys
sys.path.insert(0, {tree!r})
import wrapper_ir as wir
import wrapper_ir.lines as ir
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.walk import Renaming
assert wir.__file__.startswith({tree!r})

text = {text!r}
program = wir.parse(text)
printed = wir.print_program(program)
assert printed.split() == text.split()
assert wir.parse(printed) == program
line = program.body[1]
assert line == ir.Zero("a")
found = ir.effects(line, program)
assert (found.writes, found.written, found.reads) == (["a"], ["a"], [])
renamed = Renaming(lambda name: name + "_1", str, str).program(program)
assert renamed.body[1] == ir.Zero("a_1")
wir.verify(program)
try:
    wir.verify(wir.parse(text.replace("zero %a", "zero %b")))
except WrapperIRError as error:
    assert "%b" in str(error)
else:
    raise AssertionError
try:
    wir.parse(text.replace("zero %a", "zeor %a"))
except WrapperIRError as error:
    assert error.hint == "did you mean 'zero'?"
else:
    raise AssertionError
assert not wir.diff(program, program)

import torch
assert torch.equal(wir.interpret(program)[0], torch.zeros(2, 3))
assert "a.zero_()" in wir.emit(program, "python").source
for emitter in ("python", "fx"):
    assert torch.equal(wir.emit(program, emitter).load()()[0], torch.zeros(2, 3)), emitter
try:
    wir.emit(program, "cpp")
except WrapperIRError as error:
    assert "no kernel writes zeros in C++ yet" in str(error)
else:
    raise AssertionError

# It works on the caller's stream, which the memory of another has to wait for.
planned = wir.plan_memory(wir.parse('''
wir 2
program @streams inference logical
input %x : f32[2, 3] @cuda:0
stream 1 @cuda:0
event 1
event 2
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  record_event 1 @cuda:0
  wait_event 1 @cuda:0 stream 1
  %a = allocate stream 1 : f32[2, 3] @cuda:0
  aten::add.out(%x, %x, out=out %a) @cuda:0 stream 1
  record_event 2 @cuda:0 stream 1
  wait_event 2 @cuda:0
  zero %a
return
'''))
assert "free %a after [0]" in str(planned), str(planned)
wir.verify(planned)
"""

HARDER = """
import sys
sys.path.insert(0, {tree!r})
import torch
import wrapper_ir as wir
import wrapper_ir.lines as ir
from wrapper_ir.analysis.cuda_graphs import why_not_captured
from wrapper_ir.analysis.ordering import needs_queues, needs_streams, stream_of, users_object
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.passes.cut import cut
from wrapper_ir.verify import rules
assert wir.__file__.startswith({tree!r})

def refused(target, program, text):
    try:
        wir.emit(program, target)
    except WrapperIRError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)

def faults(text):
    return [fault.rule for fault in wir.diagnose(wir.parse(text))]

OPS = '''
extern aten::relu(Tensor self) -> Tensor
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
'''

# On the CPU, and in a region.
plain = wir.parse('''
wir 2
program @plain inference logical
input %x : f32[2, 3] @cpu
input s0
symbol s0 : int [0, 9]
''' + OPS + '''
  %a = prefetch %x : f32[2, 3] @cpu
  %r = cond s0 > 3 with (%a) : f32[2, 3] @cpu
    then (%b : f32[2, 3] @cpu) {{
      %c = prefetch %b : f32[2, 3] @cpu
      yield %c
    }}
    else (%d : f32[2, 3] @cpu) {{
      %e = aten::relu(%d) : f32[2, 3] @cpu
      yield %e
    }}
return %r
''')
assert wir.parse(str(plain)) == plain
planned = wir.plan_memory(plain)
assert "free %a" in str(planned)  # it is owned by the program, as any memory
x = torch.randn(2, 3)
for number, wanted in ((5, x), (1, x.relu())):
    assert torch.equal(wir.interpret(plain, x, number)[0], wanted)
    for target in ("python", "fx"):
        assert torch.equal(wir.compile(plain, target)(x, number)[0], wanted), target
refused("cpp", plain, "nothing prefetches in C++ yet")
assert not wir.diff(plain, plain)
assert rules.STREAM_IN_REGION in faults(str(plain).replace("prefetch %b", "prefetch %b stream 1"))

# On a stream: it has to be waited for.
TEXT = '''
wir 2
program @ahead inference planned
input %x : f32[4, 4] @cuda:0
stream 1 @cuda:0
event 1
event 2
''' + OPS + '''
  record_event 1 @cuda:0
  wait_event 1 @cuda:0 stream 1
  %a = prefetch %x stream 1 : f32[4, 4] @cuda:0
  record_event 2 @cuda:0 stream 1
  wait_event 2 @cuda:0
  aten::add.out(%x, %a, out=out %x) @cuda:0
  free %a after [0]
return
'''
ahead = wir.parse(TEXT)
wir.verify(ahead)
at = next(n for n, each in enumerate(ahead.body) if isinstance(each, ir.Prefetch))
line = ahead.body[at]
assert stream_of(line) == 1 and needs_queues(ahead)
assert needs_streams(line, ahead) == "it is on stream 1"
assert rules.RACE in faults(TEXT.replace("  wait_event 2 @cuda:0\\n", ""))
assert rules.RACE in faults(TEXT.replace("  wait_event 1 @cuda:0 stream 1\\n", ""))
assert rules.BAD_STREAM in faults(TEXT.replace("%x stream 1 ", "%x stream 2 "))
assert rules.BAD_MEMPOOL in faults(TEXT.replace("%x stream 1 ", "%x stream 1 mempool 1 "))
users = wir.parse(TEXT.replace("stream 1 @cuda:0\\n", "stream 1 @cuda:0 user 7\\n", 1))
assert users_object(users.body[at], users) == "stream 1 is the user's"
source = wir.emit(ahead, "python").source
block = source[source.index("with stream_1:"):]
assert "    a.copy_(x, non_blocking=True)" in block, source
refused("fx", ahead, "it is on stream 1")
assert any("it is on stream 1" in each for each in why_not_captured(ahead))

# In a piece that is captured, if it is on the caller's stream.
pieces = cut(wir.parse('''
wir 2
program @cut inference logical
input %x : f32[4, 4] @cuda:0
input %h : f32[4, 4] @cpu
''' + OPS + '''
  %g = aten::relu(%h) : f32[4, 4] @cpu
  %a = aten::relu(%x) @cuda:0 : f32[4, 4] @cuda:0
  %p = prefetch %a : f32[4, 4] @cuda:0
  %b = aten::relu(%p) @cuda:0 : f32[4, 4] @cuda:0
  %c = aten::relu(%b) @cuda:0 : f32[4, 4] @cuda:0
return %c, %g
'''))
wir.verify(pieces)
(piece,) = [each for each in pieces.body if isinstance(each, ir.Switch)]
assert [each.mnemonic for each in piece.cases[0].body] == ["extern", "prefetch", "extern", "extern"]
"""


def hunks(text: str) -> list[tuple[str, str, str]]:
    """Return the changes of a block: each a file, what stands there, and what is to."""
    found = []
    for part in text.split("--- ")[1:]:
        file, _, rest = part.partition("\n")
        for hunk in rest.split("@@\n"):
            lines = hunk.splitlines()
            old = "\n".join(line[1:] for line in lines if line[:1] != "+")
            new = "\n".join(line[1:] for line in lines if line[:1] != "-")
            found.append((file, old, new))
    return found


def carry_out(tree: Path, steps: slice) -> set[str]:
    """Make the changes of some steps of the page; return the files that they touch.

    The first five add the line of the example, the sixth a harder one.
    """
    changes = [block for block in blocks(PAGE) if block.language == "diff"]
    assert len(changes) == 6
    found = [hunk for block in changes[steps] for hunk in hunks(block.text)]
    for file, old, new in found:
        path = tree / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old + "\n") == 1, (file, old)
        path.write_text(text.replace(old + "\n", new + "\n"), encoding="utf-8")
    return {file for file, _, _ in found}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "native")
    shutil.copytree(ROOT / "wrapper_ir", tmp_path / "wrapper_ir", ignore=ignored)
    return tmp_path


def test_the_five_steps_make_a_line_that_is_known_everywhere(tree: Path) -> None:
    assert len(carry_out(tree, slice(5))) == 7
    (text,) = [block.text for block in blocks(PAGE) if block.language == "wir"]
    done = warm.run(TRY.format(tree=str(tree), text=text), cwd=tree, ours=False)
    assert done.returncode == 0, done.stderr


def test_a_line_with_a_stream_and_memory_takes_as_many_files(tree: Path) -> None:
    assert len(carry_out(tree, slice(5, 6))) == 7
    done = warm.run(HARDER.format(tree=str(tree)), cwd=tree, ours=False)
    assert done.returncode == 0, done.stderr


def test_a_line_that_states_not_where_it_runs_is_found_when_it_is_imported(tree: Path) -> None:
    carry_out(tree, slice(5, 6))
    path = tree / "wrapper_ir/lines/memory.py"
    text = path.read_text(encoding="utf-8")
    start = text.index("class Prefetch(Line)")
    stated = "    runs: ClassVar[Runs] = Runs.STREAM\n"
    path.write_text(text[:start] + text[start:].replace(stated, "", 1), encoding="utf-8")
    program = f"import sys; sys.path.insert(0, {str(tree)!r}); import wrapper_ir.lines"
    done = warm.run(program, cwd=tree, ours=False)
    assert done.returncode != 0
    assert "Prefetch does not state its 'runs' (docs/add-a-line.md)" in done.stderr


def test_a_line_that_no_visitor_knows_is_found_when_the_package_is_imported(tree: Path) -> None:
    carry_out(tree, slice(2))
    program = f"import sys; sys.path.insert(0, {str(tree)!r}); import wrapper_ir.lines"
    done = warm.run(program, cwd=tree, ours=False)
    assert done.returncode != 0
    assert "LineVisitor has no visit_zero, for Zero" in done.stderr


def test_nothing_of_it_is_in_the_tree_itself() -> None:
    module = ast.parse((ROOT / "wrapper_ir/lines/memory.py").read_text(encoding="utf-8"))
    assert {"Zero", "Prefetch"}.isdisjoint(
        each.name for each in module.body if isinstance(each, ast.ClassDef)
    )
