"""Shell completion: the completions of arguments, and the scripts that request them.

The scripts are click's. The shell starts ``wrapper-ir`` for each completion, so nothing here
imports torch. Directories are completed with a trailing slash, and without a space after it.
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
#: A line of click's script for bash, and the line added after it.
_REPLY: Final = "COMPREPLY+=($value)"
_NO_SPACE: Final = "            [[ $value == */ ]] && compopt -o nospace"


def files(*suffixes: str) -> Complete:
    """Complete files with these suffixes, and directories."""

    def complete(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem[str]]:
        folder, slash, start = word.rpartition("/")
        prefix = folder + slash
        try:
            paths = sorted(Path(prefix).expanduser().iterdir())
        except OSError:
            return []
        return [
            CompletionItem(f"{prefix}{path.name}{'/' if path.is_dir() else ''}")
            for path in paths
            if path.name.startswith(start)
            and (start or not path.name.startswith("."))
            and (path.suffix in suffixes or path.is_dir())
        ]

    return complete


def words(find: Callable[[], Iterable[str]]) -> Complete:
    """Complete words, which are computed on demand."""

    def complete(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem[str]]:
        return [CompletionItem(each) for each in find() if each.startswith(word)]

    return complete


def _targets() -> Iterable[str]:
    from wrapper_ir.emitters import emitter_names

    return emitter_names()


def _corpus() -> Iterable[str]:
    from wrapper_ir.testing.corpus_files import corpus_files

    return corpus_files()


def _options(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem[str]]:
    """Complete ``key=`` and ``key=value`` for the emitter named earlier on the line."""
    from wrapper_ir.emitters import emitter_class, options_of
    from wrapper_ir.errors import WrapperIRError

    try:
        options = options_of(emitter_class(str(ctx.params.get("target") or "cpp")))
    except WrapperIRError:
        return []
    candidates = []
    for option in options:
        values = option.takes.split(" | ")
        candidates += [f"{option.name}={value if len(values) > 1 else ''}" for value in values]
    return [CompletionItem(each) for each in candidates if each.startswith(word)]


PROGRAMS: Final = files(".wir")
MODULES: Final = files(".py")
TARGETS: Final = words(_targets)
TARGETS_AND_IR: Final = words(lambda: ("ir", *_targets()))
CORPUS: Final = words(_corpus)
OPTIONS: Final[Complete] = _options


def script(main: click.Command, shell: str) -> str:
    """Return the completion script for a shell."""
    completion = get_completion_class(shell)
    assert completion is not None
    text = completion(main, {}, _PROGRAM, _VARIABLE).source()
    if shell == "bash":
        text = text.replace(_REPLY, f"{_REPLY}\n{_NO_SPACE}")
    return text


def install(main: click.Command, shell: str) -> str:
    """Write the script to where the shell looks for it; return instructions for the user.

    Raises:
        FileError: The script cannot be written.
    """
    from wrapper_ir.cli.errors import file_errors
    from wrapper_ir.cli.files import SCRIPT, write_text

    path = _place(shell)
    with file_errors("write", repr(str(path))):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(str(path), script(main, shell), SCRIPT)
    return f"{path}\n{_REMARKS[shell].format(path=path, folder=path.parent)}"


_REMARKS: Final = {
    "bash": "  new shells load it if the package bash-completion is installed; "
    "else add to ~/.bashrc:  source '{path}'",
    "zsh": "  add to ~/.zshrc, above compinit:  fpath+=('{folder}')",
    "fish": "  new shells load it",
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
    """Add ``--show-completion`` and ``--install-completion``, which act and exit."""
    for flag, act, about in (
        ("--show-completion", script, "Print the completion script for a shell."),
        (
            "--install-completion",
            install,
            "Install the completion script where the shell looks for it.",
        ),
    ):
        function = click.option(
            flag,
            is_flag=False,
            flag_value="",
            is_eager=True,
            expose_value=False,
            metavar="[SHELL]",
            callback=_callback(act),
            help=f"{about} {', '.join(SHELLS)}; by default the one of $SHELL.",
        )(function)
    return function


def _callback(
    act: Callable[[click.Command, str], str],
) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is None or ctx.resilient_parsing:
            return
        shell = str(value) or Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            message = f"{shell!r} is not one of {', '.join(SHELLS)}; name one of them"
            raise click.BadParameter(message, ctx, parameter)
        click.echo(act(ctx.command, shell).rstrip("\n"))
        ctx.exit()

    return callback
