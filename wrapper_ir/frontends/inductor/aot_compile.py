"""Libraries and packages that Inductor's callers ask for inside an installation.

``torch._inductor.aot_compile``, and so ``aoti_compile_and_package``, pass a graph to one function
that returns a library, or the files of a package. Inside an installation these are ours: the
graph's program as C++, built the way ``export`` builds it.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.common.apart import with_apart_inputs
from wrapper_ir.frontends.common.ranges import assume_traced_sizes, exported_ranges
from wrapper_ir.frontends.common.tensors import renamed
from wrapper_ir.frontends.inductor.aot_lowering import lower_graph, read_names, with_values
from wrapper_ir.frontends.inductor.compat import cache_dir, compile_lock, inductor_config
from wrapper_ir.frontends.inductor.dropped_facts import (
    noted_guards,
    take_numbers,
    take_strings,
    with_exported_ranges,
    with_guards,
    with_numbers,
    with_packing,
    without_bounds,
)
from wrapper_ir.frontends.inductor.export_guards import (
    free_sizes,
    shape_env_of,
    warn_of_fixed_sizes,
    warn_of_lost_sizes,
)
from wrapper_ir.frontends.inductor.folding import inner_compiler
from wrapper_ir.frontends.inductor.identity import is_bisected_away
from wrapper_ir.frontends.inductor.inductor_options import delivery_of
from wrapper_ir.frontends.inductor.output_code import artifact_of
from wrapper_ir.frontends.inductor.session import (
    announce,
    current_session,
    open_recorders,
    refuse,
    statistics,
    use_session,
)
from wrapper_ir.frontends.inductor.settings import Settings
from wrapper_ir.options.declared import CPP_EMITTER
from wrapper_ir.options.schema import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from wrapper_ir.frontends.inductor.inductor_options import Delivery
    from wrapper_ir.lines.program import Program


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

        session = current_session()
        if session is None or session.capture or is_bisected_away(session, model_.graph):
            with use_session(session if session is not None and session.capture else None):
                return run(config_patches)
        try:
            delivery, options = delivery_of(config_patches or {})
            settings = _settings(session.settings, options)
            capturing = replace(session, settings=settings, capture=True, hold=None)
            with compile_lock, use_session(capturing):
                examples = take_strings(model_, example_inputs_)
                program, graph = _program(
                    model_, lambda config: run(config, examples), settings, delivery
                )
            files = _files(program, settings, delivery)
        except WrapperIRError as error:
            refuse(session, error)
            announce(str(error))
            with use_session(None):
                return run(config_patches)
        statistics.count_program()
        for recorder in open_recorders(session):
            recorder.add(program, graph)
        return files

    return compile_fx_aot


def _settings(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """Return the settings for a library, with the options of its own compilation merged in.

    A library is C++, whatever else the installation emits.

    Raises:
        OptionError: The C++ emitter lacks an option of the installation.
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
    freeze = bool(patches.get("freezing", inductor_config.freezing))
    inputs = [node.name for node in model.graph.find_nodes(op="placeholder")]
    free, env = free_sizes(model.graph, inputs), shape_env_of(model.graph)
    start = 0 if env is None else len(env.guards)
    known = {} if env is None else dict(env.var_to_range)
    known |= dict(getattr(model, "range_constraints", ()))
    ranges = exported_ranges(model.graph, known)
    assume_traced_sizes(model.graph)
    numbers = take_numbers(model)
    # Dynamo flattens the names of a module's tensors.
    originals = dict(model.meta.get("dynamo_flat_name_to_original_fqn", {}))
    folded = read_names(model.graph) if freeze else ()
    lowered = lower_graph(
        lambda config: run({**patches, **delivery.inductor, **config}),
        freeze=freeze,
        fold=delivery.folds,
    )
    program = with_exported_ranges(with_numbers(lowered.program, numbers), ranges, lowered.least)
    if not (delivery.checks_lower and delivery.checks_upper):
        program = without_bounds(
            program, lower=not delivery.checks_lower, upper=not delivery.checks_upper
        )
    program = with_guards(program, noted_guards(env, {}))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers(remove_duplicate=False))
    program = with_values(program, {**parameters, **buffers}, parameters, buffers, folded)
    program = renamed(program, originals)
    specs = {"in_spec": delivery.in_spec, "out_spec": delivery.out_spec}
    program = with_packing(program.replace(name="model", **specs), lowered.packed)
    program = with_apart_inputs(program)
    warn_of_fixed_sizes(program, free)
    warn_of_lost_sizes(program, noted_guards(env, {}, start))
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
    root = Path(cache_dir()) / (target if delivery.target else "wrapper_ir")
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
