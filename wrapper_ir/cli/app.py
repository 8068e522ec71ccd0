"""The ``wrapper-ir`` group: its table of commands, and the handling of their errors."""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import sys
import traceback
from pkgutil import resolve_name
from typing import NoReturn

import click

from wrapper_ir import __version__
from wrapper_ir.cli.command import TRACEBACK, Group, examples, traceback_option
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import command

#: Command -> where it is defined among our commands, and its line in the help of the whole, which
#: has to fit beside its name on a screen of 80 columns. In the order of that help.
COMMANDS = {
    "capture": ("rendering:capture", "Make a program of a model, which Inductor schedules"),
    "print": ("looking:show", "Print a program in its normal form"),
    "verify": ("looking:verify", "Check programs, and show every fault of each"),
    "validate": ("validating:validate", "Compare a program with the graph of its model"),
    "verify-ranks": ("ranks:verify_ranks", "Tell whether the programs of all ranks fit together"),
    "upgrade": ("looking:upgrade", "Rewrite programs of older versions of the text form"),
    "lower": ("plan:lower", "Run the passes that devices and a target name"),
    "plan": ("plan:plan", "Plan a program's memory, and report on the plan"),
    "plan-csv": ("plan:plan_csv", "Assign offsets to the buffers of a table"),
    "emit": ("rendering:emit", "Render a program as Python, C++ or for another target"),
    "export": ("rendering:export", "Build a package or a library, or write a folder of source"),
    "inspect": ("looking:inspect", "Show what a package contains and needs"),
    "check": ("looking:check", "Compare a folder of source with its program"),
    "run": ("rendering:run", "Run a program once, and show its results"),
    "diff": ("looking:diff", "Compare two programs by meaning"),
    "compare": ("comparing:compare", "Compare two folders of programs, for a report"),
    "review": ("reviewing:review", "Decide on snapshots that changed, those alike at once"),
    "explore": ("exploring:explore", "Write a page that shows a program, or how two differ"),
    "explain-call": ("calls:explain_call", "Measure where the time of a model's call goes"),
    "bisect": ("failures:bisect", "Name the first call that differs between two ways of running"),
    "bisect-ranks": ("ranks:bisect_ranks", "Name the rank and the call that first differ"),
    "reduce": ("failures:reduce", "Make a program that fails smaller"),
    "corpus": ("installation:corpus", "Show the programs that emitters are tested on"),
    "emitters": ("installation:emitters", "List the installed emitters and their options"),
    "cache": ("installation:cache", "Show, trim or clear the cache of compiled kernels"),
    "prepare": ("installation:prepare", "Compile what a machine compiles once"),
    "doctor": ("installation:doctor", "Examine the installation, for bug reports"),
}

_DIFFERENCE, _BAD_INPUT, _FAULT = 1, 2, 3

#: The code of VerificationError.
_VERIFICATION = "WIR1000"

#: Exit codes of errors that are not a user's mistake: VerificationError, NonFiniteError, which
#: ``run --debug check`` looks for, and faults of third-party passes and emitters. They are listed
#: by code because the modules that define them are expensive to import.
_STATUS = {
    _VERIFICATION: _DIFFERENCE,
    "WIR1402": _FAULT,
    "WIR1403": _FAULT,
    "WIR1502": _DIFFERENCE,
    "WIR2008": _FAULT,
    "WIR2009": _FAULT,
}

#: The exit code of a command ended by Ctrl-C, as in shells.
_INTERRUPTED = 130

#: Error numbers of a full output.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# At exit the interpreter would run the garbage collector over all of torch's objects. That takes
# most of a second, which is noticeable after Ctrl-C. Triton's bindings would report as leaks, in
# thirty lines, what is not collected.
@atexit.register
def _leave() -> None:
    if "triton._C.libtriton" not in sys.modules:
        gc.freeze()


class App(Group):
    """A group that loads its commands by name and turns exceptions into messages and codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it, or None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        where, summary = COMMANDS[cmd_name]
        found = resolve_name(f"wrapper_ir.cli.commands.{where}")
        assert isinstance(found, click.Command)
        found.short_help = summary
        return found

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; print its error and exit if it fails."""
        _hush()
        try:
            with command():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader closed the pipe; click exits quietly
            if TRACEBACK in ctx.meta:
                traceback.print_exception(error)
            if isinstance(error, KeyboardInterrupt):
                sys.exit(_INTERRUPTED)
            _fail(error)


def _hush() -> None:
    """Have torch not tell, amid what a command says, of a GPU that is not there.

    Compiling imports ``torch.utils.cpp_extension``, which looks for CUDA and tells when it is
    imported; the profiler logs what it starts and misses.
    """
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")


def _fail(error: Exception) -> NoReturn:
    """Print an error to standard error and exit."""
    title, text, status = "error: ", str(error), _BAD_INPUT
    if isinstance(error, WrapperIRError):
        status = _STATUS.get(error.code, _BAD_INPUT)
        if error.code == _VERIFICATION:
            title = ""  # the text is the whole program, with each fault under its line
    elif isinstance(error, OSError) and error.errno in _FULL:
        text = f"cannot write: {error}"
    else:
        title, status = "internal error: ", _FAULT
        hint = "  hint: this is a fault of wrapper-ir; --traceback shows where"
        text = f"{type(error).__name__}: {error}\n{hint}"
    if title:
        click.secho(title, fg="red", bold=True, nl=False, err=True)
    click.echo(text, err=True)
    sys.exit(status)


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("""
wrapper-ir capture model.py:make -o m.wir && wrapper-ir emit m.wir
"""),
)
@click.version_option(__version__, "-V", "--version", prog_name="wrapper-ir")
def main() -> None:
    """Work with wrapper programs: the host code around compiled kernels."""


main.params.append(traceback_option())
