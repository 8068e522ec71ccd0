"""``capture``: one program of a model, its parameters being constants.

The model goes through ``torch.export``; the exported graph goes to Inductor ahead of time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.common.symbols import free_names, with_symbols_named
from wrapper_ir.frontends.inductor.ahead import lowered, with_values
from wrapper_ir.frontends.inductor.captured import (
    checked_examples,
    noted_guards,
    take_numbers,
    take_strings,
    with_exported_ranges,
    with_guards,
    with_numbers,
    with_packing,
    with_truth_values,
)
from wrapper_ir.frontends.inductor.compat import (
    aot_compile,
    compile_lock,
    forget_last_trace,
    inductor_config,
)
from wrapper_ir.frontends.inductor.errors import CaptureError
from wrapper_ir.frontends.inductor.exported import (
    example_leaves,
    exported_guards,
    free_sizes,
    originals,
    shape_env_of,
    warn_of_fixed_sizes,
)
from wrapper_ir.frontends.inductor.notes import compiling_for
from wrapper_ir.frontends.inductor.registration import registered
from wrapper_ir.frontends.inductor.session import Session, open_recorders
from wrapper_ir.frontends.inductor.settings import Settings
from wrapper_ir.frontends.inductor.triton import hint_for_export
from wrapper_ir.lines.control import ScalarInput
from wrapper_ir.lines.program import FrozenMap, Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Function(torch.nn.Module):
    """A function as a module, which is what ``torch.export`` takes."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        # The function itself, so that its parameters keep their names.
        self.forward = function


def capture(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    isa: str = "native",
    freeze: bool | None = None,
) -> Program:
    """Return the wrapper program of a model: Inductor's schedule, the parameters as constants.

    The constants' values share memory with the model's tensors. What the model writes to its
    buffers (batch-norm statistics) the program writes to them.

    Threads take turns: tracing patches modules of torch's, so it waits for other captures and for
    what Dynamo compiles, under Dynamo's own lock.

    Args:
        model: An ``nn.Module``, an exported program, or a function of tensors.
        args: Example arguments; their shapes are the program's, unless ``dynamic_shapes``. Numbers
            are inputs; strings are part of the program, which does not take them again. An
            exported program brings its own, and takes others of the kind that it was made for.
        kwargs: Example keyword arguments.
        dynamic_shapes: Which dimensions are symbolic, as for ``torch.export.export``; those of an
            exported program are known already.
        isa: What kernels are written for: ``native``, the best that this processor has, or a level
            such as ``x86-64-v3``, so that they can be built for any processor of that level.
        freeze: Whether parameters are frozen: what depends on them alone is computed now, and
            weights are packed in the form that oneDNN wants. They lose the names that they are
            updated by. ``None`` goes by ``torch._inductor.config.freezing``.

    Raises:
        OptionValueError: There is no such ``isa``.
        CaptureError: The model cannot be exported, or Inductor cannot lower it.
        UnsupportedLineError: Something in its wrapper has no typed form.
    """
    with compile_lock, compiling_for(isa):
        exported, examples = _export(model, args, kwargs, dynamic_shapes)
        try:
            frozen = inductor_config.freezing if freeze is None else freeze
            program, graph = _compile(exported, examples, freeze=frozen)
        finally:
            forget_last_trace()
    for recorder in open_recorders():
        recorder.add(program, graph)
    return program


def _export(
    model: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> tuple[torch.export.ExportedProgram, Sequence[Any]]:
    """Return the exported model and its example arguments as leaves, in order."""
    given: object = args
    if isinstance(given, torch.Tensor):
        hint = "write (x,) for one argument"
        raise CaptureError(problem="args is a tensor, not a tuple of arguments", hint=hint)
    if isinstance(model, torch.export.ExportedProgram):
        return model, example_leaves(model, args, kwargs, dynamic_shapes)
    if not callable(model):
        raise CaptureError(problem=f"a {type(model).__name__} is not a model")
    if args is None:
        raise CaptureError(problem="a model needs example arguments", hint="pass args, () for none")
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    try:
        exported = torch.export.export(
            module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
        )
    except Exception as error:
        problem = f"torch.export says: {error}"
        raise CaptureError(problem=problem, hint=hint_for_export(error)) from error
    return exported, pytree.tree_leaves(exported.example_inputs)


def _compile(
    exported: torch.export.ExportedProgram, examples: Sequence[Any], *, freeze: bool
) -> tuple[Program, torch.fx.GraphModule]:
    """Return the program, and the graph of ATen ops that Inductor scheduled."""
    module: Any = exported.module(check_guards=False)
    assumed = exported_guards(exported, module)
    free = free_sizes(exported.graph, exported.graph_signature.user_inputs)
    examples = take_strings(module, examples)
    taken = checked_examples(examples)
    numbers = take_numbers(module)
    session = _session(exported)
    with registered(session):
        program, graph, packed = lowered(
            lambda config: aot_compile(_flattened(module), taken, options=config),
            freeze=freeze,
        )
    program = with_truth_values(with_numbers(program, numbers), examples)
    program = with_exported_ranges(program, exported.range_constraints)
    better = free_names(program, _numbers_by_name(program, session.input_names))
    noted = noted_guards(shape_env_of(exported.graph), better)
    program = with_symbols_named(with_guards(program, [*assumed, *noted]), better)
    program = with_packing(_finished(program, exported), packed)
    warn_of_fixed_sizes(program, free)
    return program, graph


def _session(exported: torch.export.ExportedProgram) -> Session:
    """Return the session of a capture: inputs keep the names that the model gives them."""
    specs = exported.graph_signature.input_specs
    args = [spec.arg for spec in specs if spec.kind is InputKind.USER_INPUT]
    names = [arg.name for arg in args if not isinstance(getattr(arg, "value", None), str)]
    return Session(Settings(), capture=True, input_names=tuple(names))


def _numbers_by_name(program: Program, names: Sequence[str]) -> dict[str, str]:
    """Return what the model calls each symbol that is a number among its arguments."""
    if len(program.inputs) != len(names):
        return {}
    inputs = zip(program.inputs, names, strict=True)
    return {item.symbol: name for item, name in inputs if isinstance(item, ScalarInput)}


def _flattened(module: Any) -> torch.fx.GraphModule:
    """Return an exported program's module, changed to take and return leaves, in order.

    Inductor would flatten arguments itself, but insists on writing the trees as JSON, which not
    every type of tree can be.
    """
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    for name in ("_in_spec", "_out_spec"):
        if hasattr(module, name):
            delattr(module, name)
    module.recompile()
    return module  # type: ignore[no-any-return]  # exported programs make graph modules


def _spec(tree: pytree.TreeSpec | None) -> str:
    """Return a tree's form as JSON, empty where it holds a type that has no name there.

    What ``sort`` and its like return, named tuples of torch's, become plain tuples.
    """
    if tree is None:
        return ""
    try:
        return pytree.treespec_dumps(tree)
    except NotImplementedError:
        pass
    try:
        return pytree.treespec_dumps(_with_plain_tuples(tree))
    except NotImplementedError:
        return ""


def _with_plain_tuples(tree: Any) -> Any:
    """Return a tree's form with each named tuple of torch's replaced by a tuple."""
    children = [_with_plain_tuples(child) for child in tree.children()]
    if not children:
        return tree
    # The type of a named tuple of the user's own is a function, collections.namedtuple.
    is_torchs = getattr(tree.type, "__module__", "") == "torch.return_types"
    kind, context = (tuple, None) if is_torchs else (tree.type, tree.context)
    return type(tree)(kind, context, children)


def _finished(program: Program, exported: torch.export.ExportedProgram) -> Program:
    """Return the program with what the exported program knows: names, values, tree specs."""
    values = {**exported.constants, **exported.state_dict}
    signature = exported.graph_signature
    program = with_values(program, values, signature.parameters, signature.buffers)
    objects, data = dict(program.objects), dict(program.data)
    for name, original in originals(program, exported).items():
        objects[name] = dataclasses.replace(objects[name], qualified_name=original)
        data[name] = exported.constants[original]
    spec = exported.call_spec
    return program.replace(
        name="captured",
        objects=FrozenMap(objects),
        data=data,
        in_spec=_spec(spec.in_spec),
        out_spec=_spec(spec.out_spec),
    )
