"""The mutants: faults that emitters have, each with the test of the kit that finds it.

A fault is made in the program, before one of our emitters gets it, in the text that it writes, or
in the function that is loaded. So it is a fault of an emitter to whoever only sees the outside.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from tests.kit_mutants.machine import Mutant, drop, lines
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AssertLayout,
    AssertSymbol,
    BufferInput,
    Cond,
    DType,
    ExternKernel,
    Free,
    KernelCall,
    Probe,
    Program,
    Reinterpret,
    Reuse,
    ScalarArg,
    Switch,
    WaitEvent,
    effects,
)
from wrapper_ir.lines.layout import CPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import AnyLine, Layout

# Changes of programs.


def _layouts(change: Callable[[Layout], Layout]) -> Callable[[Program], Program]:
    """A change of the layouts of all buffers that a program makes itself."""

    def changed(program: Program) -> Program:
        given = {getattr(item, "name", "") for item in program.inputs} | {*program.constants}
        new = {n: change(at) for n, at in program.buffers.items() if n not in given}
        return program.replace(buffers=program.buffers.set(**new))

    return changed


def _ranges(**changes: Any) -> Callable[[Program], Program]:
    def changed(program: Program) -> Program:
        new = {name: replace(info, **changes) for name, info in program.symbols.items()}
        return program.replace(symbols=program.symbols.set(**new))

    return changed


def _inputs(change: Callable[[BufferInput], BufferInput]) -> Callable[[Program], Program]:
    """A change of the buffers that a program is given."""

    def changed(program: Program) -> Program:
        new = (change(each) if isinstance(each, BufferInput) else each for each in program.inputs)
        return program.replace(inputs=tuple(new))

    return changed


def _data(change: Callable[[Program], dict[str, Any]]) -> Callable[[Program], Program]:
    return lambda program: program.replace(data={**program.data, **change(program)})


def _body(
    change: Callable[[list[AnyLine], Program], list[AnyLine]],
) -> Callable[[Program], Program]:
    return lambda program: program.replace(body=tuple(change([*program.body], program)))


def _reuse_early(body: list[AnyLine], program: Program) -> list[AnyLine]:
    """Puts a buffer where an earlier one of its layout still is."""
    first: dict[Layout, str] = {}
    made = list[Any]()
    for line in body:
        if isinstance(line, Allocate) and not line.zeroed:
            layout = program.layout(line.out)
            if layout in first:
                line = Reinterpret(line.out, first[layout])
            first.setdefault(layout, getattr(line, "out", ""))
        made.append(line)
    return made


def _over_inputs(body: list[AnyLine], program: Program) -> list[AnyLine]:
    """Puts a buffer where an input of its layout is."""
    inputs = {program.layout(i.name): i.name for i in program.inputs if hasattr(i, "name")}
    return [
        (
            Reinterpret(line.out, inputs[program.layout(line.out)])
            if isinstance(line, Allocate) and program.layout(line.out) in inputs
            else line
        )
        for line in body
    ]


def _reverse(wanted: Callable[[AnyLine], bool]) -> Callable[[Program], Program]:
    """Lines of a kind come in the opposite order."""

    def change(body: list[AnyLine], _: Program) -> list[AnyLine]:
        found = [n for n, line in enumerate(body) if wanted(line)]
        for a, b in zip(found, reversed(found), strict=True):
            if a < b:
                body[a], body[b] = body[b], body[a]
        return body

    return _body(change)


def _is_note(line: AnyLine) -> bool:
    """Return whether a line is a call of an op for its effects alone."""
    return isinstance(line, ExternKernel) and not line.results and not effects(line).writes


def _writes(line: AnyLine) -> bool:
    return isinstance(line, ExternKernel) and not line.results and bool(effects(line).writes)


def _scalars(change: Callable[[Any], Any]) -> Callable[[Program], Program]:
    def changed(line: AnyLine) -> tuple[AnyLine, ...]:
        if not isinstance(line, KernelCall):
            return (line,)
        args = [ScalarArg(change(a.value)) if isinstance(a, ScalarArg) else a for a in line.args]
        return (replace(line, args=tuple(args)),)

    return lines(changed)


def _other_kernel(line: AnyLine) -> tuple[AnyLine, ...]:
    return (line, line) if isinstance(line, KernelCall) else (line,)


# Changes of loaded functions.


def _remembers(function: Any) -> Any:
    kept: list[Any] = []

    def run(*inputs: Any) -> Any:
        kept.append(function(*inputs))
        return kept[0]

    return run


def _hands_out_the_same_memory(function: Any) -> Any:
    kept: list[Any] = []

    def run(*inputs: Any) -> Any:
        results = function(*inputs)
        if not kept:
            kept.extend(results)
            return results
        for old, new in zip(kept, results, strict=True):
            if isinstance(old, torch.Tensor) and old.shape == new.shape:
                with suppress(RuntimeError):
                    old.copy_(new)
        return tuple(kept)

    return run


def _keeps(what: str) -> Callable[[Any], Any]:
    def change(function: Any) -> Any:
        kept: list[Any] = []

        def run(*inputs: Any) -> Any:
            results = function(*inputs)
            kept.append(results if what == "results" else inputs)
            return results

        return run

    return change


def _with_autograd(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        boxed = function.module.call
        with torch.autocast("cpu", enabled=False):
            return boxed([*inputs])

    return run


def _with_autocast(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        with torch.no_grad():
            return function.module.call([*inputs])

    return run


def _leaves_autograd_off(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        torch.set_grad_enabled(False)
        return function(*inputs)

    return run


def _swallows_errors(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        try:
            return function(*inputs)
        except Exception:
            return ()

    return run


def _draws(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        torch.rand(1)
        return function(*inputs)

    return run


def _reseeds(function: Any) -> Any:
    def run(*inputs: Any) -> Any:
        torch.manual_seed(0)
        results = function(*inputs)
        torch.manual_seed(1)
        return results

    return run


def _then(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda function: lambda *inputs: change(function(*inputs))


# What makes emitting impure.

_count = itertools.count()


def _leaves_a_file(program: Program) -> Program:
    with open("emitted.txt", "w", encoding="utf-8") as file:
        file.write(program.name)
    return program


def _writes_behind(what: Callable[[], object]) -> tuple[str, Callable[[Any], str]]:
    return (r"\Z", lambda _: f"# {what()}\n")


_NAMES: Final = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")

_IN_A_ROW: Final = """\
    args[1:3] = [
        torch.empty_like(x, memory_format=torch.contiguous_format).copy_(x)
        .view(-1).as_strided(x.size(), x.stride())
        if x.data_ptr() % 64 else x for x in args[1:3]
    ]"""

MUTANTS: Final = (
    # Memory.
    Mutant("never_frees", ("memory_is_freed_where_the_program_says",), text=(r"^ +del .*\n", "")),
    Mutant("frees_no_buffers", ("memory_is_freed_where_the_program_says",), program=drop(Free)),
    Mutant(
        "keeps_donated_memory",
        ("donated_inputs_are_freed_where_the_program_says",),
        text=(r"^    args\.clear\(\)", r"    held = [*args]\n    args.clear()"),
    ),
    Mutant(
        "leaks_results", ("calls_leave_nothing", "what_callers_drop_dies"), load=_keeps("results")
    ),
    Mutant("leaks_inputs", ("what_callers_drop_dies",), load=_keeps("inputs")),
    Mutant(
        "leaks_rounds",
        ("rounds_of_loops_leave_nothing",),
        wraps=(
            "run_while",
            "lambda c, b, x, *r: real(c, lambda *a: (kept.append(b(*a)), kept[-1])[1], x, *r)",
        ),
        text=(r"^def call", "kept = []\n\n\ndef call"),
    ),
    Mutant(
        "clones_views",
        ("results_share_memory_as_they_should[views]",),
        wraps=("reinterpret_tensor", "lambda *a: real(*a).clone()"),
    ),
    Mutant(
        "clones_what_is_cast",
        ("results_share_memory_as_they_should[views]",),
        wraps=("reinterpret_as", "lambda *a: real(*a).clone()"),
    ),
    Mutant(
        "allocates_where_it_should_reuse",
        ("reused_memory_is_the_donors",),
        program=lines(
            lambda line: (
                (Allocate(line.out), Free(line.donor)) if isinstance(line, Reuse) else (line,)
            )
        ),
    ),
    Mutant(
        "allocates_slices",
        ("slices_are_in_their_pool",),
        program=lines(
            lambda line: (Allocate(line.out),) if isinstance(line, AllocateFromPool) else (line,)
        ),
    ),
    Mutant(
        "puts_slices_at_the_start",
        ("slices_are_in_their_pool", "results_are_the_interpreters[pools-0]"),
        program=lines(
            lambda line: (
                (replace(line, offset=0),) if isinstance(line, AllocateFromPool) else (line,)
            )
        ),
    ),
    Mutant(
        "reuses_early",
        ("results_are_the_interpreters[scalar_types-0]",),
        program=_body(_reuse_early),
    ),
    Mutant(
        "works_in_its_inputs",
        ("results_are_the_interpreters[relu_twice-0]",),
        program=_body(_over_inputs),
    ),
    Mutant(
        "forgets_zeros",
        ("results_are_the_interpreters[zeroed-0]",),
        text=(r"^ +\w+\.zero_\(\)\n", ""),
    ),
    Mutant(
        "misaligns",
        ("memory_is_aligned",),
        wraps=(
            "empty_strided_cpu",
            "lambda n, s, t: torch.empty(99, dtype=t)[1:].as_strided(n, s)",
        ),
    ),
    Mutant(
        "forgets_to_realign",
        ("inputs_are_realigned[False]", "inputs_are_realigned[True]"),
        program=_inputs(lambda item: replace(item, realigned=0)),
    ),
    Mutant(
        "realigns_to_fewer_bytes",
        ("inputs_are_realigned[False]",),
        program=_inputs(lambda item: replace(item, realigned=min(item.realigned, 16))),
    ),
    Mutant(
        "realigns_always",
        ("inputs_are_realigned[False]",),
        load=lambda function: lambda *inputs: function(
            *(x.clone() if isinstance(x, torch.Tensor) and x.dim() > 1 else x for x in inputs)
        ),
    ),
    Mutant(
        "realigns_in_a_row",
        ("inputs_are_realigned[False]",),
        text=(r"^    realign\(args\)$", _IN_A_ROW),
    ),
    # Layouts and numbers.
    Mutant(
        "forgets_offsets",
        ("results_are_the_interpreters[views-0]",),
        wraps=("reinterpret_tensor", "lambda x, size, stride, at: real(x, size, stride, 0)"),
    ),
    Mutant(
        "allocates_in_a_row",
        ("results_are_the_interpreters[channels_last-0]",),
        wraps=(
            "empty_strided_cpu",
            "lambda size, stride, dtype: torch.empty(size, dtype=dtype)",
        ),
    ),
    Mutant(
        "widens_half_types",
        ("results_are_the_interpreters[half_types-0]",),
        program=_layouts(
            lambda at: replace(at, dtype=DType.FLOAT32) if at.dtype is DType.BFLOAT16 else at
        ),
    ),
    Mutant(
        "widens_integers",
        ("results_are_the_interpreters[integer_kernels-0]",),
        program=_layouts(
            lambda at: replace(at, dtype=DType.INT64) if at.dtype is DType.INT32 else at
        ),
    ),
    Mutant(
        "passes_narrow_integers",
        ("numbers_arrive_whole",),
        text=(r'"int64_t"', '"int32_t"'),
    ),
    Mutant("passes_single_precision", ("numbers_arrive_whole",), text=(r'"double"', '"float"')),
    Mutant(
        "truncates_division", ("numbers_arrive_whole",), text=(r"(\w+) // (\w+)", r"int(\1 / \2)")
    ),
    Mutant(
        "rounds_to_zero_after_division",
        ("numbers_arrive_whole",),
        text=(r"\bn % 251", "int(__import__('math').fmod(n, 251))"),
    ),
    # Order and calls.
    Mutant(
        "returns_in_another_order",
        ("results_are_the_interpreters[multi_output-0]",),
        load=_then(lambda results: results[::-1]),
    ),
    Mutant(
        "returns_a_list",
        ("results_share_memory_as_they_should[relu_twice]",),
        load=_then(list),
    ),
    Mutant(
        "forgets_a_result",
        ("results_are_the_interpreters[views-0]",),
        load=_then(lambda results: results[:-1]),
    ),
    Mutant(
        "skips_branches",
        ("results_are_the_interpreters[cond-1]",),
        text=(r"= (\w+) if (.+) else \w+$", r"= \1"),
    ),
    Mutant(
        "swaps_branches",
        ("results_are_the_interpreters[cond-0]",),
        program=lines(
            lambda line: (
                (replace(line, then=line.orelse, orelse=line.then),)
                if isinstance(line, Cond)
                else (line,)
            )
        ),
    ),
    Mutant(
        "takes_the_next_case",
        ("results_are_the_interpreters[switch-0]",),
        program=lines(
            lambda line: (
                (replace(line, cases=(*line.cases[1:], line.cases[0])),)
                if isinstance(line, Switch)
                else (line,)
            )
        ),
    ),
    Mutant(
        "loops_once_more",
        ("results_are_the_interpreters[while-0]",),
        wraps=("run_while", "lambda c, b, x, *r: b(*real(c, b, x, *r), *r[0])"),
    ),
    Mutant(
        "loops_once",
        ("results_are_the_interpreters[while-0]",),
        wraps=("run_while", "lambda c, b, x, *r: b(*x, *r[0])"),
    ),
    Mutant(
        "calls_twice",
        ("results_are_the_interpreters[input_mutation-0]",),
        program=lines(_other_kernel),
    ),
    Mutant(
        "copies_in_another_order",
        ("copies_are_made_in_order",),
        program=_reverse(_writes),
    ),
    Mutant(
        "notes_in_another_order",
        ("ops_are_called_in_order_with_autograd_off",),
        program=_reverse(_is_note),
    ),
    Mutant(
        "drops_effects",
        ("ops_are_called_in_order_with_autograd_off",),
        program=lines(lambda line: () if _is_note(line) else (line,)),
    ),
    Mutant(
        "drops_writes",
        ("results_are_the_interpreters[input_mutation-0]",),
        program=lines(lambda line: () if _writes(line) else (line,)),
    ),
    Mutant("remembers_results", ("calls_do_not_disturb_each_other[relu_twice]",), load=_remembers),
    Mutant(
        "hands_out_the_same_memory",
        ("calls_do_not_disturb_each_other[relu_twice]",),
        load=_hands_out_the_same_memory,
    ),
    Mutant(
        "leaves_its_list_full",
        ("boxed_calls_empty_their_list[relu_twice]",),
        boxed=lambda boxed: lambda inputs: boxed([*inputs]),
    ),
    # Checks.
    Mutant(
        "drops_checks_of_inputs",
        ("wrong_inputs_are_refused[views]",),
        text=(r"^    check_inputs\(.*\n", ""),
    ),
    Mutant(
        "drops_checks_of_layouts",
        ("results_of_ops_are_checked",),
        program=drop(AssertLayout),
    ),
    Mutant("drops_asserts", ("wrong_inputs_are_refused[asserts]",), program=drop(AssertSymbol)),
    Mutant(
        "ignores_lower_ends_of_ranges",
        ("wrong_inputs_are_refused[dynamic_shapes]",),
        program=_ranges(lower=None),
    ),
    Mutant(
        "ignores_upper_ends_of_ranges",
        ("wrong_inputs_are_refused[cond]",),
        program=_ranges(upper=None),
    ),
    Mutant(
        "ignores_alignment",
        ("wrong_inputs_are_refused[asserts]",),
        program=lines(
            lambda line: (
                (replace(line, alignment=None),) if isinstance(line, AssertLayout) else (line,)
            )
        ),
    ),
    Mutant(
        "ignores_strides",
        ("wrong_inputs_are_refused[relu_twice]",),
        wraps=(
            "check_inputs",
            "lambda *a: real(*map(torch.Tensor.contiguous, a))",
        ),
    ),
    Mutant(
        "ignores_devices",
        ("memory_is_on_the_programs_device",),
        program=_layouts(lambda at: replace(at, device=CPU)),
    ),
    Mutant("swallows_errors", ("wrong_inputs_are_refused[relu_twice]",), load=_swallows_errors),
    # Autograd and the state of torch.
    Mutant("runs_with_autograd", ("calls_are_below_autograd[extern_fresh]",), load=_with_autograd),
    Mutant(
        "runs_with_autocast",
        ("ops_are_called_in_order_with_autograd_off",),
        load=_with_autocast,
    ),
    Mutant(
        "leaves_autograd_off", ("calls_are_below_autograd[relu_twice]",), load=_leaves_autograd_off
    ),
    Mutant(
        "hides_writes_from_autograd",
        ("calls_are_below_autograd[input_mutation]",),
        load=lambda function: lambda *x: function(*(t.data for t in x)),
    ),
    Mutant("draws_numbers", ("results_share_memory_as_they_should[relu_twice]",), load=_draws),
    Mutant("reseeds", ("results_share_memory_as_they_should[relu_twice]",), load=_reseeds),
    # Constants.
    Mutant(
        "copies_constants",
        ("constants_are_the_programs[constants]",),
        program=_data(lambda program: {n: x.clone() for n, x in program.data.items()}),
    ),
    Mutant(
        "unties_constants",
        ("constants_are_the_programs[constants]",),
        program=_data(
            lambda program: {
                name: program.data[name].clone()
                for name, constant in program.constants.items()
                if constant.tied_to
            }
        ),
    ),
    # Emitting.
    Mutant(
        "writes_a_set",
        ("text_does_not_depend_on_the_process",),
        text=_writes_behind(lambda: " ".join({*_NAMES})),
    ),
    Mutant(
        "writes_an_id",
        ("emitting_is_pure[relu_twice]",),
        text=_writes_behind(lambda: id(object()) + next(_count)),
    ),
    Mutant(
        "writes_the_time",
        ("emitting_is_pure[relu_twice]",),
        text=_writes_behind(time.perf_counter_ns),
    ),
    Mutant(
        "counts_programs",
        ("emitting_is_pure[relu_twice]",),
        text=_writes_behind(lambda: next(_count)),
    ),
    Mutant(
        "writes_the_folder",
        ("text_does_not_depend_on_the_process",),
        text=_writes_behind(os.getcwd),
    ),
    Mutant(
        "writes_the_process",
        ("text_does_not_depend_on_the_process",),
        text=_writes_behind(os.getpid),
    ),
    Mutant("leaves_files", ("emitting_is_pure[relu_twice]",), program=_leaves_a_file),
    Mutant(
        "forgets_an_import",
        ("text_defines_what_it_names[relu_twice]",),
        text=(r"^    random_tensor,\n", ""),
    ),
    # Debugging.
    Mutant("drops_probes", ("debugging_changes_nothing[relu_twice]",), program=drop(Probe)),
    Mutant(
        "shows_other_buffers",
        ("debugging_changes_nothing[pools]",),
        program=lines(
            lambda line: (
                (replace(line, buffers=line.buffers[::-1]),) if isinstance(line, Probe) else (line,)
            )
        ),
    ),
    # Launches and streams.
    Mutant(
        "swaps_grids",
        ("launches_are_as_written",),
        program=lines(
            lambda line: (
                (replace(line, grid=line.grid[::-1]),) if isinstance(line, KernelCall) else (line,)
            )
        ),
    ),
    Mutant("never_waits", ("what_orders_streams_is_rendered[streams]",), program=drop(WaitEvent)),
    Mutant(
        "calls_on_one_stream",
        ("what_orders_streams_is_rendered[streamed]",),
        program=lines(
            lambda line: (
                (replace(line, stream=0),)
                if isinstance(line, (ExternKernel, KernelCall))
                else (line,)
            )
        ),
    ),
    # Graphs.
    Mutant(
        "drops_writes_in_graphs",
        ("results_are_the_interpreters[input_mutation-0]",),
        program=lines(lambda line: () if _writes(line) else (line,)),
        base="fx",
    ),
    Mutant(
        "drops_asserts_in_graphs",
        ("wrong_inputs_are_refused[asserts]",),
        program=drop(AssertSymbol),
        base="fx",
    ),
    Mutant(
        "drops_checks_in_graphs",
        ("results_of_ops_are_checked",),
        program=drop(AssertLayout),
        base="fx",
    ),
)
