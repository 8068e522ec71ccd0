"""The ``wrapper-ir`` group: its commands, and what becomes of their errors."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import sys
import traceback
from typing import NoReturn

import click

from wrapper_ir import __version__
from wrapper_ir.cli.command import TRACEBACK, Group, examples, traceback_option
from wrapper_ir.cli.completion import completion_options
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import command

#: Command -> where it is defined, in the order in which help lists them.
COMMANDS = {
    "demo": "wrapper_ir.cli.commands.capture:demo",
    "capture": "wrapper_ir.cli.commands.capture:capture",
    "print": "wrapper_ir.cli.commands.looking:show",
    "verify": "wrapper_ir.cli.commands.looking:verify",
    "upgrade": "wrapper_ir.cli.commands.looking:upgrade",
    "plan": "wrapper_ir.cli.commands.plan:plan",
    "plan-csv": "wrapper_ir.cli.commands.plan:plan_csv",
    "emit": "wrapper_ir.cli.commands.rendering:emit",
    "export": "wrapper_ir.cli.commands.rendering:export",
    "inspect": "wrapper_ir.cli.commands.packages:inspect",
    "check": "wrapper_ir.cli.commands.packages:check",
    "run": "wrapper_ir.cli.commands.rendering:run",
    "diff": "wrapper_ir.cli.commands.looking:diff",
    "bisect": "wrapper_ir.cli.commands.failures:bisect",
    "reduce": "wrapper_ir.cli.commands.failures:reduce",
    "corpus": "wrapper_ir.cli.commands.installation:corpus",
    "emitters": "wrapper_ir.cli.commands.installation:emitters",
    "cache": "wrapper_ir.cli.commands.installation:cache",
    "doctor": "wrapper_ir.cli.commands.installation:doctor",
}

_DIFFERENCE, _BAD_INPUT, _FAULT = 1, 2, 3

#: The code of NonFiniteError, what ``run --debug check`` is there to find. Its module needs torch.
_NOT_FINITE = "WIR1502"

#: The codes of EmitterFaultError and ArtifactError, which likewise need not be imported.
_FAULTS_OF_OTHERS = ("WIR2008", "WIR2009")

#: What shells give a command that Ctrl-C has ended.
_INTERRUPTED = 130

#: What an output that can hold no more says.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# An interpreter that ends looks for garbage among all that there is: with torch, most of a second,
# for which a command that Ctrl-C has ended would still be there.
atexit.register(gc.freeze)


class App(Group):
    """A group that loads its commands by name and turns exceptions into messages and codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List all commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for; end the process where it fails."""
        try:
            with command():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            if TRACEBACK in ctx.meta:
                traceback.print_exception(error)
            sys.exit(_INTERRUPTED)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of a pipe has had enough; click ends quietly
            if TRACEBACK in ctx.meta:
                traceback.print_exception(error)
            _fail(error)


def _fail(error: Exception) -> NoReturn:
    """Say what went wrong on standard error and end the process."""
    if _is_verification(error):
        # Its text is the whole program, each fault under its line: a prefix would be in the way.
        click.echo(str(error), err=True)
        sys.exit(_DIFFERENCE)
    if isinstance(error, WrapperIRError):
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(str(error), err=True)
        others = {_NOT_FINITE: _DIFFERENCE, **dict.fromkeys(_FAULTS_OF_OTHERS, _FAULT)}
        sys.exit(others.get(error.code, _BAD_INPUT))
    if isinstance(error, OSError) and error.errno in _FULL:
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(f"cannot write: {error}", err=True)
        sys.exit(_BAD_INPUT)
    click.secho("internal error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(f"{type(error).__name__}: {error}", err=True)
    click.echo("  hint: this is a fault of wrapper-ir; --traceback shows where", err=True)
    sys.exit(_FAULT)


def _is_verification(error: Exception) -> bool:
    # Asked by name: importing the verifier (and sympy with it) only to find out would be a waste.
    module = sys.modules.get("wrapper_ir.verify")
    return module is not None and isinstance(error, module.VerificationError)


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("""
wrapper-ir demo                             # compile, train and run a small transformer
wrapper-ir capture model.py:make -o m.wir   # your model, as a wrapper program
wrapper-ir verify m.wir && wrapper-ir emit m.wir --target python -o wrapper.py
""")
    + """

\b
Exit codes: 0 done, 1 rules broken or differences found, 2 wrong usage or bad input,
3 a fault of wrapper-ir or of another package's emitter, 130 interrupted.
`wrapper-ir COMMAND --help` shows examples of each command.""",
)
@click.version_option(__version__, "-V", "--version", prog_name="wrapper-ir")
@completion_options
@traceback_option
def main() -> None:
    """Look at, check and render wrapper programs: the host code around compiled kernels."""
