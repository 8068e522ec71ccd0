"""Shell completion: the completions of arguments. The scripts that request them are click's.

The shell starts ``wrapper-ir`` for each completion, so nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def _files(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem[str]]:
    """Have the shell complete a file's name in its own way."""
    return [CompletionItem(word, type="file")]


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


FILES: Final[Complete] = _files
TARGETS: Final = words(_targets)
TARGETS_AND_IR: Final = words(lambda: ("ir", *_targets()))
CORPUS: Final = words(_corpus)
OPTIONS: Final[Complete] = _options
