"""Memory that peers address is planned together, apart from other memory, and in time."""

from __future__ import annotations

import pytest

import wrapper_ir as wir
from wrapper_ir.lines import MemoryKind, Program, Reuse

HEAD = """
wir 2
program @peers inference logical

input %x : f32[SIZE] @cuda:0

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern symm_mem::nvshmem_put(Tensor(a!) tensor, int peer) -> ()
extern symm_mem::one_shot_all_reduce_out(Tensor input, str reduce_op, str group_name, \
Tensor(a!) out) -> Tensor(a!)
"""

STEP = """
  %a{n} = allocate symmetric : f32[SIZE] @cuda:0
  %b{n} = allocate symmetric : f32[8] @cuda:0
  %v{n} = reinterpret {given} : f32[8] @cuda:0
  aten::relu.out({given}, out=out %a{n}) @cuda:0
  aten::relu.out(%v{n}, out=out %b{n}) @cuda:0
  %c{n} = allocate : f32[SIZE] @cuda:0
  %w{n} = reinterpret %c{n} : f32[8] @cuda:0
  symm_mem::one_shot_all_reduce_out(%a{n}, "sum", "0", out %c{n}) @cuda:0
  symm_mem::one_shot_all_reduce_out(%b{n}, "sum", "0", out %w{n}) @cuda:0
"""

PUT = """
  %a = allocate symmetric : f32[8] @cuda:0
  aten::relu.out(%x, out=out %a) @cuda:0
  symm_mem::nvshmem_put(inout %a, 1) @cuda:0
  %b = allocate symmetric : f32[8] @cuda:0
  aten::relu.out(%x, out=out %b) @cuda:0
  %c = allocate : f32[8] @cuda:0
  symm_mem::one_shot_all_reduce_out(%b, "sum", "0", out %c) @cuda:0
  %d = allocate symmetric : f32[8] @cuda:0
  aten::relu.out(%c, out=out %d) @cuda:0
  %e = allocate : f32[8] @cuda:0
  symm_mem::one_shot_all_reduce_out(%d, "sum", "0", out %e) @cuda:0
return %e
"""


def steps(size: int = 8, count: int = 3) -> Program:
    """Sums of two buffers, several times."""
    given = ["%x", *(f"%c{n}" for n in range(count))]
    body = "".join(STEP.format(n=n, given=given[n]) for n in range(count))
    return wir.parse((HEAD + body + f"return {given[-1]}\n").replace("SIZE", str(size)))


def homes(program: Program) -> dict[str, MemoryKind]:
    """The memory that each buffer lies in, through pools and reuse."""
    found: dict[str, MemoryKind] = {}
    for line in program.body:
        name = getattr(line, "out", "")
        if hasattr(line, "memory"):
            found[name] = line.memory
        source = getattr(line, "pool", "") or getattr(line, "donor", "")
        if source:
            found[name] = found[source]
    return found


@pytest.mark.parametrize("strategy", ["reuse", "pool"])
def test_no_memory_is_shared_with_other_memory(strategy: str) -> None:
    planned = wir.verify(wir.plan_memory(steps(), strategy))
    found = homes(planned)
    for n in range(3):
        kinds = [found[f"{name}{n}"] is MemoryKind.SYMMETRIC for name in "abc"]
        assert kinds == [True, True, False]


def test_it_is_not_cut_from_pools() -> None:
    """Some ops look for it where its allocation begins (``_low_contention_all_gather``)."""
    planned = wir.plan_memory(steps(), "pool")
    text = str(planned)
    assert "allocate_pool symmetric" not in text
    assert text.count("allocate symmetric") == 2
    assert text.count("= reuse %") == 4
    assert wir.parse(text) == planned


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_it_is_kept_for_the_next_call(emitter: str) -> None:
    """Ranks meet for an allocation once. What is returned is the caller's, and stays that."""
    assert str(wir.prepare(steps(), emitter)).count("allocate symmetric kept") == 2
    text = str(steps(count=1)).replace("return %c0", "return %c0, %a0")
    returned = str(wir.prepare(wir.parse(text), emitter))
    assert returned.count("allocate symmetric :") == 1
    assert returned.count("allocate symmetric kept :") == 1


@pytest.mark.parametrize("strategy", ["reuse", "pool"])
def test_memory_is_not_given_on_while_a_peer_may_access_it(strategy: str) -> None:
    """After an op of one side, that is so until the next op that all take part in."""
    text = (HEAD + PUT).replace("SIZE", "8")
    planned = wir.verify(wir.plan_memory(wir.parse(text), strategy))
    by_name = {getattr(line, "out", ""): line for line in planned.body}
    assert not isinstance(by_name["b"], Reuse)
    assert isinstance(by_name["d"], Reuse)


def test_ranks_whose_plans_put_it_elsewhere_do_not_fit_together() -> None:
    # The same calls, with other offsets: what one rank looks for lies elsewhere on the other.
    usual, moved = (wir.parse(_in_a_pool(offset)) for offset in (512, 768))
    assert wir.verify_ranks([usual, usual]).ok
    (problem,) = wir.verify_ranks([usual, usual, moved]).problems
    assert problem.kind == "place"
    assert "rank 2 calls something with another place in group '0'" in problem.message


def _in_a_pool(offset: int) -> str:
    head = HEAD.replace("SIZE", "8").replace("logical", "planned")
    return f"""{head}
  %pool = allocate_pool symmetric : u8[1280] @cuda:0
  %a = allocate_from_pool %pool[{offset}] : f32[8] @cuda:0
  aten::relu.out(%x, out=out %a) @cuda:0
  %c = allocate : f32[8] @cuda:0
  symm_mem::one_shot_all_reduce_out(%a, "sum", "0", out %c) @cuda:0
  free %a
  free %pool
return %c
"""
