"""The ``wrapper-ir`` group: its table of commands, and the handling of their errors."""

from __future__ import annotations

import atexit
import errno
import gc
import sys
import traceback
from pkgutil import resolve_name
from typing import NoReturn

import click

from wrapper_ir import __version__
from wrapper_ir.cli.command import TRACEBACK, Group, examples, traceback_option
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import command

#: Command -> where it is defined, in the order of the help.
COMMANDS = {
    "capture": "wrapper_ir.cli.commands.rendering:capture",
    "print": "wrapper_ir.cli.commands.looking:show",
    "verify": "wrapper_ir.cli.commands.looking:verify",
    "verify-ranks": "wrapper_ir.cli.commands.ranks:verify_ranks",
    "upgrade": "wrapper_ir.cli.commands.looking:upgrade",
    "lower": "wrapper_ir.cli.commands.plan:lower",
    "plan": "wrapper_ir.cli.commands.plan:plan",
    "plan-csv": "wrapper_ir.cli.commands.plan:plan_csv",
    "emit": "wrapper_ir.cli.commands.rendering:emit",
    "export": "wrapper_ir.cli.commands.rendering:export",
    "inspect": "wrapper_ir.cli.commands.looking:inspect",
    "check": "wrapper_ir.cli.commands.looking:check",
    "run": "wrapper_ir.cli.commands.rendering:run",
    "diff": "wrapper_ir.cli.commands.looking:diff",
    "explain-call": "wrapper_ir.cli.commands.calls:explain_call",
    "bisect": "wrapper_ir.cli.commands.failures:bisect",
    "reduce": "wrapper_ir.cli.commands.failures:reduce",
    "corpus": "wrapper_ir.cli.commands.installation:corpus",
    "emitters": "wrapper_ir.cli.commands.installation:emitters",
    "cache": "wrapper_ir.cli.commands.installation:cache",
    "prepare": "wrapper_ir.cli.commands.installation:prepare",
    "doctor": "wrapper_ir.cli.commands.installation:doctor",
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
        found = resolve_name(COMMANDS[cmd_name])
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; print its error and exit if it fails."""
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
wrapper-ir capture model.py:make -o m.wir   # your model, as a wrapper program
wrapper-ir verify m.wir && wrapper-ir emit m.wir --target python -o wrapper.py
""")
    + """

\b
Exit codes: 0 success, 1 rules broken or differences found, 2 wrong usage or bad input,
3 a fault of wrapper-ir or of a third-party emitter, 130 interrupted.
`wrapper-ir COMMAND --help` shows examples of each command.""",
)
@click.version_option(__version__, "-V", "--version", prog_name="wrapper-ir")
def main() -> None:
    """Inspect, check and render wrapper programs: the host code around compiled kernels."""


main.params.append(traceback_option())
