"""A module of Python for a program, whatever its emitter makes: what Inductor's caches can keep.

Caches and saved artifacts of torch keep text and run it again, in this process or in another one;
a graph, or another live object, they cannot keep. The text made here holds the program, and running
it emits the program again, by the emitter that is installed by then.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from wrapper_ir.api import emit
from wrapper_ir.emitters import emitter_class, faults_of
from wrapper_ir.emitters.python.literals import source_literal
from wrapper_ir.emitters.writer import prose
from wrapper_ir.text import parse, print_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.frontends.inductor.settings import Settings
    from wrapper_ir.lines.program import Program

    #: Takes the list of arguments, which it empties, and gives the results.
    BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


def module_text(program: Program, settings: Settings) -> str:
    """Return a module that defines ``call``: it takes one list, which it empties.

    Whoever loads the module sets the program's constants in it, by their names in the program,
    before the first call.

    Args:
        program: The program, its memory planned.
        settings: The emitter and its options.

    Raises:
        UnprintableError: The program has no text.
    """
    text = print_program(program, origins=True)
    options = dict(settings.emitter_options)
    lines = [
        f'"""{prose(program.name)}: emitted by {prose(settings.emitter)} when it is loaded."""',
        "",
        f"from {__name__} import {boxed_call.__name__}",
        "",
        f"_program = {source_literal(text)}",
        "",
        f"call = {boxed_call.__name__}(_program, {settings.emitter!r}, {options!r}, globals())",
        "",
    ]
    return "\n".join(lines)


def boxed_call(
    text: str, emitter: str, options: Mapping[str, Any], variables: Mapping[str, Any]
) -> BoxedCall:
    """Return the function of such a module.

    A program without constants is emitted and loaded now, another one in its first call.

    Args:
        text: The program.
        emitter: Name of the emitter.
        options: Those of the emitter.
        variables: The module's, where the constants are when the first call comes.

    Raises:
        WrapperIRError: The program cannot be emitted or loaded.
    """
    program = parse(text)
    names = (*program.constants, *program.objects)

    def load(whole: Program) -> BoxedCall:
        artifact = emit(whole, emitter, **options)
        with faults_of(emitter_class(emitter), "what it made was loaded"):
            return artifact.load_boxed()

    if not names:
        return load(program)
    guard = threading.Lock()
    loaded: list[BoxedCall] = []

    def call(args: list[Any]) -> tuple[Any, ...]:
        if not loaded:
            with guard:
                if not loaded:
                    whole = program.replace(data={name: variables[name] for name in names})
                    loaded.append(load(whole))
        return loaded[0](args)

    return call
