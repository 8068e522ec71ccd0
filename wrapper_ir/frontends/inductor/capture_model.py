"""``capture``: one program of a model, with its parameters as constants.

``torch.export`` exports the model, and Inductor compiles the exported graph ahead of time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.common.exported import (
    assume_traced_sizes,
    exported_ranges,
    with_apart_inputs,
)
from wrapper_ir.frontends.common.symbols import free_names, with_symbols_named
from wrapper_ir.frontends.inductor import compat, export_guards
from wrapper_ir.frontends.inductor import dropped_facts as facts
from wrapper_ir.frontends.inductor.aot_compile import lower_graph, read_names, with_values
from wrapper_ir.frontends.inductor.distributed_export import made_traceable
from wrapper_ir.frontends.inductor.errors import CaptureError, words_of
from wrapper_ir.frontends.inductor.random_state import refusing_state
from wrapper_ir.frontends.inductor.registration import registered
from wrapper_ir.frontends.inductor.session import Session, open_recorders
from wrapper_ir.frontends.inductor.settings import Settings, compiling_for
from wrapper_ir.frontends.inductor.subclass_weights import take_apart
from wrapper_ir.frontends.inductor.triton import hint_for_export
from wrapper_ir.lines.control import ScalarInput
from wrapper_ir.lines.program import FrozenMap, Program
from wrapper_ir.options.declared import VALIDATE
from wrapper_ir.runtime.subclass_parts import with_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class _Function(torch.nn.Module):
    """A function as a module, because ``torch.export`` only takes modules."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        # Assigned, not wrapped, so that its parameters keep their names.
        self.forward = function


def capture(  # noqa: PLR0913 - what to capture, and how
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    isa: str = "native",
    freeze: bool | None = None,
    validate: str | None = None,
) -> Program:
    """Return the wrapper program of a model: Inductor's schedule, with the parameters as constants.

    The constants share memory with the model's tensors. Where the model writes to its buffers
    (batch-norm statistics), so does the program.

    Captures run one at a time, under Dynamo's own lock: tracing patches modules of torch, so a
    capture waits for other captures and for Dynamo's compilations.

    Args:
        model: An ``nn.Module``, an exported program, or a function of tensors.
        args: Example arguments. Their shapes become the program's unless ``dynamic_shapes`` says
            otherwise. Numbers become inputs; strings are fixed in the program and are not inputs.
            An exported program has its own examples, and accepts others of the same kind.
        kwargs: Example keyword arguments.
        dynamic_shapes: As for ``torch.export.export``. An exported program already has its own.
        isa: The instruction set of the kernels: ``native``, the best of this processor, or a level
            such as ``x86-64-v3``, so that they can be built for any processor of that level.
        freeze: Whether to freeze parameters: what depends on them alone is computed now, and
            weights are packed into oneDNN's format. They can then no longer be updated by name.
            ``None`` follows ``torch._inductor.config.freezing``.
        validate: ``off``, ``warn`` or ``error``: what to do if the program does something else than
            its graph, as :func:`validate` finds. ``None`` follows ``WRAPPER_IR_VALIDATE``.

    Raises:
        OptionValueError: There is no such ``isa``, or no such value of ``validate``.
        GraphMismatchError: The program does something else than its graph.
        CaptureError: The model cannot be exported, or Inductor cannot lower it.
        UnsupportedLineError: Something in its wrapper has no typed form.
    """
    settings = _settings(validate)
    with compat.compile_lock, compiling_for(isa), compat.specs_as_constants():
        exported, examples = _export(model, args, kwargs, dynamic_shapes)
        try:
            frozen = compat.inductor_config.freezing if freeze is None else freeze
            program, graph = _compile(exported, examples, settings, freeze=frozen)
        finally:
            compat.forget_last_trace()
    for recorder in open_recorders():
        recorder.add(program, graph)
    return program


def _export(
    model: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> tuple[torch.export.ExportedProgram, Sequence[Any]]:
    """Return the exported model and the leaves of its example arguments, in order."""
    raw_args: object = args
    if isinstance(raw_args, torch.Tensor):
        hint = "write (x,) for one argument"
        raise CaptureError(problem="args is a tensor, not a tuple of arguments", hint=hint)
    if isinstance(model, torch.export.ExportedProgram):
        return model, export_guards.example_leaves(model, args, kwargs, dynamic_shapes)
    if not callable(model):
        raise CaptureError(problem=f"a {type(model).__name__} is not a model")
    if args is None:
        raise CaptureError(problem="a model needs example arguments", hint="pass args, () for none")
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    try:
        given = _separate((tuple(args), dict(kwargs or {})))
        with made_traceable(module), refusing_state(_refuse_state):
            exported = torch.export.export(module, *given, dynamic_shapes=dynamic_shapes)
    except CaptureError:
        raise
    except Exception as error:
        problem = f"torch.export says: {words_of(error)}"
        raise CaptureError(problem=problem, hint=hint_for_export(error)) from error
    return exported, pytree.tree_leaves(exported.example_inputs)


def _refuse_state(problem: str) -> NoReturn:
    hint = "a program draws random numbers, but sets no seed: do that before you call it"
    raise CaptureError(problem=problem, hint=hint)


def _separate(examples: Any) -> Any:
    """Return example arguments with no tensor twice, of which ``torch.export`` makes one input."""
    seen: set[int] = set()

    def separate(value: Any) -> Any:
        if type(value) is torch.Tensor and id(value) in seen:
            return value.detach().clone().requires_grad_(value.requires_grad)
        seen.add(id(value))
        return value

    return pytree.tree_map(separate, examples)


def _compile(
    exported: torch.export.ExportedProgram,
    examples: Sequence[Any],
    settings: Settings,
    *,
    freeze: bool,
) -> tuple[Program, torch.fx.GraphModule]:
    """Return the program and the graph of ATen ops that Inductor scheduled."""
    module: Any = exported.module(check_guards=False)
    take_apart(module)
    assumed = export_guards.exported_guards(exported, module)
    free = export_guards.free_sizes(exported.graph, exported.graph_signature.user_inputs)
    env = export_guards.shape_env_of(exported.graph)
    start = 0 if env is None else len(env.guards)
    assume_traced_sizes(exported.graph)
    examples = facts.take_strings(module, examples)
    inputs = facts.checked_examples(examples)
    numbers = facts.take_numbers(module)
    folded = read_names(module.graph) if freeze else ()
    session = _session(exported, settings)

    def run(config: dict[str, Any]) -> Any:
        return compat.aot_compile(_flattened(module), inputs, options=config)

    fold = bool(compat.inductor_config.aot_inductor.use_runtime_constant_folding)
    with registered(session):
        lowered = lower_graph(run, freeze=freeze, fold=fold)
    program = facts.with_truth_values(facts.with_numbers(lowered.program, numbers), examples)
    ranges = exported_ranges(exported.graph, exported.range_constraints)
    program = facts.with_exported_ranges(program, ranges, lowered.least)
    names = free_names(program, _numbers_by_name(program, session.input_names))
    guards = [*assumed, *facts.noted_guards(env, names)]
    program = with_symbols_named(facts.with_guards(program, guards), names)
    program = facts.with_packing(_finished(program, exported, folded), lowered.packed)
    program = with_apart_inputs(program)
    export_guards.warn_of_fixed_sizes(program, free)
    promised = dict(assumed)
    relied_on = [each for each in facts.noted_guards(env, names, start) if each[0] not in promised]
    export_guards.warn_of_lost_sizes(program, relied_on)
    return program, lowered.graph


def _settings(validate: str | None) -> Settings:
    """Return the settings of a capture."""
    if validate is None:
        return Settings(validate=str(VALIDATE.from_environment()))
    return Settings(validate=validate)  # which checks it


def _session(exported: torch.export.ExportedProgram, settings: Settings) -> Session:
    """Return the session of a capture, in which inputs keep the names that the model gives them."""
    specs = exported.graph_signature.input_specs
    args = [spec.arg for spec in specs if spec.kind is InputKind.USER_INPUT]
    names = [arg.name for arg in args if not isinstance(getattr(arg, "value", None), str)]
    return Session(settings, capture=True, input_names=tuple(names))


def _numbers_by_name(program: Program, names: Sequence[str]) -> dict[str, str]:
    """Return the model's name for each symbol that is a number among its arguments."""
    if len(program.inputs) != len(names):
        return {}
    inputs = zip(program.inputs, names, strict=True)
    return {item.symbol: name for item, name in inputs if isinstance(item, ScalarInput)}


def _flattened(module: Any) -> torch.fx.GraphModule:
    """Change an exported program's module to take and return leaves in order, and return it.

    Inductor could flatten arguments itself, but it serialises the trees as JSON, which not every
    type in a tree supports.
    """
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    for name in ("_in_spec", "_out_spec"):
        if hasattr(module, name):
            delattr(module, name)
    module.recompile()
    return module  # type: ignore[no-any-return]  # exported programs make graph modules


def _spec(tree: pytree.TreeSpec | None) -> str:
    """Return a tree's structure as JSON, or an empty string if it holds a type without a JSON name.

    Named tuples of torch, such as the result of ``sort``, become plain tuples.
    """
    if tree is None:
        return ""
    with contextlib.suppress(NotImplementedError):
        return pytree.treespec_dumps(tree)
    with contextlib.suppress(NotImplementedError):
        return pytree.treespec_dumps(_with_plain_tuples(tree))
    return ""


def _with_plain_tuples(tree: Any) -> Any:
    """Return a tree's structure with each of torch's named tuples replaced by a tuple."""
    children = [_with_plain_tuples(child) for child in tree.children()]
    if not children:
        return tree
    # The type of a user's named tuple is a function, collections.namedtuple.
    is_torchs = getattr(tree.type, "__module__", "") == "torch.return_types"
    kind, context = (tuple, None) if is_torchs else (tree.type, tree.context)
    return type(tree)(kind, context, children)


def _finished(
    program: Program, exported: torch.export.ExportedProgram, folded: Collection[str]
) -> Program:
    """Return the program with the exported program's names, values and tree specs."""
    own = {**exported.constants, **exported.state_dict}
    signature = exported.graph_signature
    parameters, buffers = (
        with_parts({name: own[name] for name in names if name in own})
        for names in (signature.parameters, signature.buffers)
    )
    program = with_values(program, with_parts(own), parameters, buffers, folded)
    objects, data = dict(program.objects), dict(program.data)
    for name, original in export_guards.original_objects(program, exported).items():
        objects[name] = dataclasses.replace(objects[name], qualified_name=original)
        data[name] = exported.constants[original]
    spec = exported.call_spec
    specs = {"in_spec": _spec(spec.in_spec), "out_spec": _spec(spec.out_spec)}
    return program.replace(name="captured", objects=FrozenMap(objects), data=data, **specs)
