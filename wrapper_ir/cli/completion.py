"""Completion in the shell: what to propose for an argument, and the script that asks for it.

The scripts are click's. A shell runs ``wrapper-ir`` again for each press of the key, so nothing
here imports torch. Directories are proposed with a slash behind them; bash is told to put no blank
there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    F = TypeVar("F", bound=Callable[..., Any])
    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]

SHELLS: Final = ("bash", "zsh", "fish")

_PROGRAM: Final = "wrapper-ir"
_VARIABLE: Final = "_WRAPPER_IR_COMPLETE"
_ADDED: Final = "COMPREPLY+=($value)"
_NO_BLANK: Final = "            [[ $value == */ ]] && compopt -o nospace"


def files(*suffixes: str) -> Complete:
    """Propose files with these suffixes, and directories."""

    def complete(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem[str]]:
        folder, slash, start = word.rpartition("/")
        prefix = folder + slash
        room = Path(prefix)
        try:
            found = sorted(room.expanduser().iterdir())
        except OSError:
            return []
        return [
            CompletionItem(f"{prefix}{path.name}{'/' if path.is_dir() else ''}")
            for path in found
            if path.name.startswith(start)
            and (start or not path.name.startswith("."))
            and (path.suffix in suffixes or path.is_dir())
        ]

    return complete


def words(find: Callable[[], Iterable[str]]) -> Complete:
    """Propose words, found when they are asked for."""

    def complete(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem[str]]:
        return [CompletionItem(each) for each in find() if each.startswith(word)]

    return complete


def _targets() -> Iterable[str]:
    from wrapper_ir.emitters import emitter_names

    return emitter_names()


def _targets_and_ir() -> Iterable[str]:
    return ("ir", *_targets())


def _corpus() -> Iterable[str]:
    from wrapper_ir.testing.corpus_files import corpus_files

    return corpus_files()


def _options(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem[str]]:
    """Propose ``key=`` and ``key=value`` of the emitter that was named before."""
    from wrapper_ir.emitters import emitter_class, options_of
    from wrapper_ir.errors import WrapperIRError

    try:
        options = options_of(emitter_class(str(ctx.params.get("target") or "cpp")))
    except WrapperIRError:
        return []
    found = []
    for option in options:
        values = option.takes.split(" | ")
        many = [f"{option.name}={value}" for value in values]
        found += many if len(values) > 1 else [f"{option.name}="]
    return [CompletionItem(each) for each in found if each.startswith(word)]


PROGRAMS: Final = files(".wir")
MODULES: Final = files(".py")
TARGETS: Final = words(_targets)
TARGETS_AND_IR: Final = words(_targets_and_ir)
CORPUS: Final = words(_corpus)
OPTIONS: Final[Complete] = _options


def script(main: click.Command, shell: str) -> str:
    """Return what a shell has to read to complete our commands."""
    found = get_completion_class(shell)
    assert found is not None
    text = found(main, {}, _PROGRAM, _VARIABLE).source()
    if shell == "bash":
        text = text.replace(_ADDED, f"{_ADDED}\n{_NO_BLANK}")
    return text


def install(main: click.Command, shell: str) -> str:
    """Write the script where the shell looks for it; return what there is to say.

    Raises:
        FileError: It cannot be written.
    """
    from wrapper_ir.cli.errors import FileError
    from wrapper_ir.cli.files import SCRIPT, write_text

    path = _place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(verb="write", file=repr(str(path)), reason=reason) from error
    write_text(str(path), script(main, shell), SCRIPT)
    return f"{path}\n{_REMARKS[shell].format(path=path, folder=path.parent)}"


_REMARKS: Final = {
    "bash": "  new shells have it where the package bash-completion is; "
    "else add to ~/.bashrc:  source '{path}'",
    "zsh": "  add to ~/.zshrc, above compinit:  fpath+=('{folder}')",
    "fish": "  new shells have it",
}


def _place(shell: str) -> Path:
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "bash": data / "bash-completion/completions" / _PROGRAM,
        "zsh": data / "zsh/site-functions" / f"_{_PROGRAM}",
        "fish": config / "fish/completions" / f"{_PROGRAM}.fish",
    }[shell]


def completion_options(function: F) -> F:
    """Add ``--show-completion`` and ``--install-completion``, which do that and end."""
    for flag, act, about in (
        ("--show-completion", script, "Print the script that completes commands in a shell."),
        ("--install-completion", install, "Install that script where the shell looks for it."),
    ):
        function = click.option(
            flag,
            is_flag=False,
            flag_value="",
            is_eager=True,
            expose_value=False,
            metavar="[SHELL]",
            callback=_doing(act),
            help=f"{about} {', '.join(SHELLS)}; by default the one of $SHELL.",
        )(function)
    return function


def _doing(
    act: Callable[[click.Command, str], str],
) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is None or ctx.resilient_parsing:
            return
        shell = str(value) or Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            message = f"{shell!r} is none of {', '.join(SHELLS)}; name one of them"
            raise click.BadParameter(message, ctx, parameter)
        click.echo(act(ctx.command, shell).rstrip("\n"))
        ctx.exit()

    return callback
