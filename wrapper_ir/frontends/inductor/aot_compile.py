"""Ahead-of-time compilation by Inductor that yields a program instead of Inductor's own wrapper.

Ahead of time Inductor offers only two wrappers: one in C++, and one that builds an fx graph. We use
the slot of the second: it compiles no kernels, makes a single pass, and returns whatever we return.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.common import exported
from wrapper_ir.frontends.inductor import compat, export_guards
from wrapper_ir.frontends.inductor import dropped_facts as facts
from wrapper_ir.frontends.inductor import session as sessions
from wrapper_ir.frontends.inductor.errors import (
    CaptureError,
    UnsupportedLineError,
    words_of,
)
from wrapper_ir.frontends.inductor.folding import folding_apart, inner_compiler, with_folding
from wrapper_ir.frontends.inductor.identity import is_bisected_away
from wrapper_ir.frontends.inductor.mismatches import GraphMismatchError
from wrapper_ir.frontends.inductor.output_code import artifact_of
from wrapper_ir.frontends.inductor.settings import Delivery, Settings, delivery_of
from wrapper_ir.lines.program import ConstantKind, FrozenMap, Program
from wrapper_ir.options.declared import CPP_EMITTER
from wrapper_ir.options.schema import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


#: Inductor's settings for a compilation ahead of time.
_CONFIG: Final[Mapping[str, Any]] = {
    "fx_wrapper": True,
    "cpp_wrapper": False,
    # Otherwise small tensors, parameters included, become literals in the kernels' text.
    "always_keep_tensor_constants": True,
    # Constant folding reads the value of every one-element tensor, even of one that calls change: a
    # batch norm would count to one and stop.
    "joint_graph_constant_folding": False,
    # Partitioning only serves CUDA graphs; we need the graph in one piece.
    "graph_partition": False,
    # Inductor can write what it splits off for this only in C++. We split the graph ourselves.
    "aot_inductor.use_runtime_constant_folding": False,
    # The model keeps its parameters even when they are frozen.
    "freezing_discard_parameters": False,
}


class Lowered(NamedTuple):
    """A graph that Inductor lowered."""

    program: Program
    graph: torch.fx.GraphModule
    least: dict[str, int]  #: values of symbols that the program is right for: ``least_sizes``
    packed: dict[int, facts.PackedBy]


def lower_graph(
    run: Callable[[dict[str, Any]], Any], *, freeze: bool, fold: bool = False
) -> Lowered:
    """Return what Inductor makes of a graph ahead of time.

    Must run in a session that captures. ``run`` has Inductor compile the graph ahead of time with
    the settings that it is passed. With ``fold``, what depends on constants alone becomes the
    program's ``folding``.

    Raises:
        CaptureError: Inductor cannot lower the graph.
        UnsupportedLineError: Something in its wrapper has no typed form.
    """
    packed: dict[int, facts.PackedBy] = {}
    try:
        with warnings.catch_warnings(), ExitStack() as stack:
            if freeze:
                stack.enter_context(torch.no_grad())  # where gradients are on, nothing is frozen
                packed = stack.enter_context(facts.noted_packing())
            # Inductor warns about unused graph inputs; here they are the caller's arguments.
            warnings.filterwarnings("ignore", module=r"torch\b")
            folding = stack.enter_context(folding_apart(wanted=fold))
            product = run({**_CONFIG, "freezing": freeze})
    except compat.InductorError as error:
        inner = getattr(error, "inner_exception", None)
        if isinstance(inner, WrapperIRError):
            if isinstance(inner, UnsupportedLineError):
                inner.hint = "under torch.compile, Inductor's own wrapper can stand in"
            raise inner from None
        raise CaptureError(problem=f"Inductor says: {words_of(error)}") from error
    except WrapperIRError:
        raise
    except Exception as error:  # from torch's own steps before Inductor, such as for aliased inputs
        raise CaptureError(problem=f"torch says: {words_of(error)}") from error
    program = _program_of(product)
    if folding.product is not None:
        inner = _program_of(folding.product.filename)
        program = with_folding(program, inner, folding.results)
    return Lowered(program, product.meta["graph"], product.meta["least"], packed)


def _program_of(product: Any) -> Program:
    program = getattr(product, "meta", {}).get("program")
    if not isinstance(program, Program):
        raise CaptureError(problem="Inductor bypassed the wrapper that makes the program")
    return program


def with_values(
    program: Program,
    values: Mapping[str, Any],
    parameters: Collection[str],
    buffers: Collection[str],
    folded: Collection[str] = (),
) -> Program:
    """Return the program with the model's own tensors as the values of its constants.

    All names are qualified; those in ``folded`` are of tensors whose values are part of other
    constants.
    """
    kinds = dict.fromkeys(buffers, ConstantKind.BUFFER)
    kinds |= dict.fromkeys(parameters, ConstantKind.PARAMETER)
    data, derived = dict(program.data), (ConstantKind.PACKED, ConstantKind.FOLDED)
    own = {n: each for n, each in program.constants.items() if each.kind not in derived}
    for name, constant in own.items():
        qualified = constant.qualified_name
        original = values.get(qualified)
        if isinstance(original, torch.Tensor) and original.shape == data[name].shape:
            # A detached tensor shares the model's memory; a program computes no gradients.
            data[name] = original.detach()
        if isinstance(data[name], torch.Tensor):
            data[name] = _as_read(data[name], qualified, mutable=constant.mutable)
    ties = exported.tied({name: data[name] for name in own})
    for name, constant in own.items():
        kind = kinds.get(constant.qualified_name, ConstantKind.TENSOR)
        own[name] = replace(constant, kind=kind, tied_to=ties.get(name))
    folding = program.folding
    if folding is not None:
        rows = folding.constants.items()
        taken = {n: replace(c, kind=kinds.get(c.qualified_name, c.kind)) for n, c in rows}
        folding = folding.replace(constants=FrozenMap(taken))
    program = program.replace(constants=program.constants.set(**own), data=data, folding=folding)
    return exported.with_other_names(program, values, kinds, folded)


def _as_read(value: torch.Tensor, name: str, *, mutable: bool) -> torch.Tensor:
    """Return a tensor of the model's whose memory holds its values, as kernels take it."""
    if value.is_complex() or not value.is_neg():  # Inductor knows of complex ones
        return value
    if mutable:
        problem = f"the model writes to {name!r}, which is negated lazily"
        raise CaptureError(problem=problem, hint="store its .resolve_neg() in the model")
    return value.resolve_neg()


def read_names(graph: torch.fx.Graph) -> frozenset[str]:
    """Return the names of the model's tensors that a graph reads."""
    nodes = graph.find_nodes(op="get_attr")
    return frozenset(str(node.target) for node in nodes if node.users)


# Libraries and packages that Inductor's callers ask for inside an installation.
#
# ``torch._inductor.aot_compile``, and so ``aoti_compile_and_package``, pass a graph to one function
# that returns a library, or the files of a package. Inside an installation these are ours: the
# graph's program as C++, built the way ``export`` builds it.


def with_library_emission(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for ahead-of-time graphs so that it serves installations too."""

    @wraps(stock)
    def compile_fx_aot(
        model_: torch.fx.GraphModule,
        example_inputs_: list[Any],
        *args: Any,
        config_patches: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        def run(patches: Mapping[str, Any] | None, examples: list[Any] = example_inputs_) -> Any:
            how = {**kwargs, **inner_compiler()}
            return stock(model_, examples, *args, config_patches=patches, **how)

        session = sessions.current_session()
        if session is None or session.capture or is_bisected_away(session, model_.graph):
            with sessions.use_session(session if session is not None and session.capture else None):
                return run(config_patches)
        try:
            delivery, options = delivery_of(config_patches or {})
            settings = _settings(session.settings, options)
            capturing = replace(session, settings=settings, capture=True, hold=None)
            with compat.compile_lock, sessions.use_session(capturing):
                examples = facts.take_strings(model_, example_inputs_)
                how = settings, delivery
                program, graph = _program(model_, lambda config: run(config, examples), *how)
            files = _files(program, settings, delivery)
        except GraphMismatchError:  # Inductor's own library may do the same
            raise
        except WrapperIRError as error:
            sessions.refuse(session, error)
            sessions.announce(str(error))
            with sessions.use_session(None):
                return run(config_patches)
        sessions.statistics.count_program()
        for recorder in sessions.open_recorders(session):
            recorder.add(program, graph)
        return files

    return compile_fx_aot


def _settings(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """Return the settings for a library, with the options of its own compilation merged in.

    A library is C++, whatever else the installation emits.
    """
    values = {option.name: getattr(settings, option.name) for option in options_of(Settings)}
    values |= {**dict(settings.emitter_options), **options, "emitter": CPP_EMITTER}
    return Settings.from_options(values)


def _program(
    model: torch.fx.GraphModule,
    run: Callable[[Mapping[str, Any]], Any],
    settings: Settings,
    delivery: Delivery,
) -> tuple[Program, torch.fx.GraphModule]:
    """Return the program of a graph that takes and returns leaves, and Inductor's graph."""
    patches = dict(settings.inductor)
    freeze = bool(patches.get("freezing", compat.inductor_config.freezing))
    inputs = [node.name for node in model.graph.find_nodes(op="placeholder")]
    free = export_guards.free_sizes(model.graph, inputs)
    env = export_guards.shape_env_of(model.graph)
    start = 0 if env is None else len(env.guards)
    known = {} if env is None else dict(env.var_to_range)
    known |= dict(getattr(model, "range_constraints", ()))
    ranges = exported.exported_ranges(model.graph, known)
    exported.assume_traced_sizes(model.graph)
    numbers = facts.take_numbers(model)
    # Dynamo flattens the names of a module's tensors.
    originals = dict(model.meta.get("dynamo_flat_name_to_original_fqn", {}))
    folded = read_names(model.graph) if freeze else ()
    patches |= delivery.inductor
    lowered = lower_graph(lambda each: run({**patches, **each}), freeze=freeze, fold=delivery.folds)
    program = facts.with_numbers(lowered.program, numbers)
    program = facts.with_exported_ranges(program, ranges, lowered.least)
    if not (delivery.checks_lower and delivery.checks_upper):
        lower, upper = not delivery.checks_lower, not delivery.checks_upper
        program = facts.without_bounds(program, lower=lower, upper=upper)
    program = facts.with_guards(program, facts.noted_guards(env, {}))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    program = with_values(program, {**parameters, **buffers}, parameters, buffers, folded)
    program = exported.renamed(program, originals)
    specs = {"in_spec": delivery.in_spec, "out_spec": delivery.out_spec}
    program = facts.with_packing(program.replace(name="model", **specs), lowered.packed)
    program = exported.with_apart_inputs(program)
    export_guards.warn_of_fixed_sizes(program, free)
    export_guards.warn_of_lost_sizes(program, facts.noted_guards(env, {}, start))
    return program, lowered.graph


def _files(program: Program, settings: Settings, delivery: Delivery) -> list[Any] | str:
    """Build a program; return the library's path, or a package's files and values.

    Without a target they go to Inductor's cache, into a folder named after their contents.
    """
    from wrapper_ir.aot import export as shipping  # noqa: PLC0415 - only to build
    from wrapper_ir.aot.package.writer import write_parts  # noqa: PLC0415 - likewise

    artifact, prepared = artifact_of(program, settings)
    target = Path(delivery.target)
    if target.suffix == ".so" and not delivery.is_package:
        return str(shipping.export(artifact, target, **delivery.build))
    root = Path(compat.cache_dir()) / (target if delivery.target else "wrapper_ir")
    root.mkdir(parents=True, exist_ok=True)
    options = shipping.check(root / "model.so", delivery.metadata, **delivery.build)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        staging = Path(scratch, "made")
        staging.mkdir()
        how: Any = {"packaged": delivery.is_package, "name": delivery.name}
        parts, _ = write_parts(staging, artifact, options, delivery.metadata, **how)
        # The library, the third of them, identifies its constants.
        digest = hashlib.sha256(b"".join(map(_digest, parts[:3])))
        folder = root / digest.hexdigest()
        try:
            staging.rename(folder)
        except OSError:  # it is there, by an earlier call or another process
            if not folder.is_dir():
                raise
    placed = [str(folder / part.name) for part in parts]
    if not delivery.is_package:
        return placed[2]
    return [*placed, _values(prepared)] if delivery.with_values else placed


def _values(program: Program) -> Any:
    """Return the values of the constants in the form that torch packs into a package."""
    from torch.export.pt2_archive._package_weights import (  # noqa: PLC0415 - seldom wanted
        TensorProperties,
        Weights,
    )

    rows = program.constants.items()
    values = {each.qualified_name: program.data[n] for n, each in rows if not each.is_derived}
    return Weights({name: (value, TensorProperties(value)) for name, value in values.items()})


def _digest(file: Path) -> bytes:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").digest()
