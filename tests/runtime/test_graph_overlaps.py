"""Overlaps of what a captured graph copies, against a look at every pair."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir.runtime.apart import extent, share_memory
from wrapper_ir.runtime.cuda_graphs.overlaps import Overlaps

PLACES = st.tuples(st.integers(0, 30), st.integers(0, 6))


@given(
    st.lists(st.tuples(PLACES, st.booleans(), st.booleans()), max_size=12),
    st.data(),
)
def test_each_pair_of_which_one_is_written_and_one_copied(
    tensors: list[tuple[tuple[int, int], bool, bool]], data: st.DataObject
) -> None:
    memory = torch.zeros(40)
    args = [memory[start : start + count] for (start, count), _, _ in tensors]
    writes = [n for n, (_, is_written, _) in enumerate(tensors) if is_written]
    copied = [n for n, (_, _, is_copied) in enumerate(tensors) if is_copied]
    fixed = {n: arg.data_ptr() for n, arg in enumerate(args) if n not in copied}
    overlaps = Overlaps(copied, writes, fixed, {n: extent(arg) for n, arg in enumerate(args)})
    for n in copied:  # elsewhere in the next call
        start = data.draw(st.integers(0, 30))
        args[n] = memory[start : start + args[n].numel()]
    expected = any(
        n != written
        and (n in copied or written in copied)
        and args[n].numel()
        and args[written].numel()
        and share_memory(args[n], args[written])
        for written in writes
        for n in range(len(args))
    )
    assert overlaps.are_in(args) == bool(expected)
