"""``wrapper-ir cache``: what is kept on disk."""

from __future__ import annotations

import dataclasses
import json

import click

from wrapper_ir.cli.command import Group, examples, json_option, traceback_option
from wrapper_ir.cli.sizes import human, parse_size


class _Bytes(click.ParamType[int]):
    """A number of bytes such as ``500M``."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number, or fail as click wants it."""
        size = value if isinstance(value, int) else parse_size(str(value))
        if size is None:
            self.fail(f"{value!r} is not a number of bytes such as 500M or 2GiB", param, ctx)
        return size


@click.group(
    cls=Group,
    epilog=examples("""
wrapper-ir cache show
wrapper-ir cache trim --max-bytes 500M
WRAPPER_IR_CACHE_DIR=/tmp/wir wrapper-ir cache clear
"""),
)
def cache() -> None:
    """Show, bound or empty the cache of compiled kernels.

    It lies in $WRAPPER_IR_CACHE_DIR, or else in wrapper_ir in $XDG_CACHE_HOME or ~/.cache, and
    holds at most $WRAPPER_IR_CACHE_MAX_BYTES (2 GiB): the longest unused goes first. Processes may
    share it; emptying it costs compilations and nothing else.
    """


@cache.command(epilog=examples("wrapper-ir cache show\nwrapper-ir cache show --json | jq .entries"))
@json_option
@traceback_option
def show(as_json: bool) -> None:
    """Show where the cache is and how full."""
    from wrapper_ir.toolchain.cache import stats

    now = stats()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(now), default=str))
        return
    click.echo(f"directory  {now.directory}")
    click.echo(f"entries    {now.entries} ({now.libraries} libraries)")
    click.echo(f"size       {human(now.total_bytes)} of at most {human(now.max_bytes)}")


@cache.command(epilog=examples("wrapper-ir cache trim\nwrapper-ir cache trim --max-bytes 500M"))
@click.option(
    "--max-bytes",
    type=_Bytes(),
    help="Keep at most this much, such as 500M. Default: the cache's own bound.",
)
@traceback_option
def trim(max_bytes: int | None) -> None:
    """Remove what was unused the longest until the rest fits a bound."""
    from wrapper_ir.toolchain.cache import trim as trim_cache

    click.echo(f"removed {human(trim_cache(max_bytes))}")


@cache.command(epilog=examples("wrapper-ir cache clear"))
@traceback_option
def clear() -> None:
    """Remove everything."""
    from wrapper_ir.toolchain.cache import clear as clear_cache

    click.echo(f"removed {human(clear_cache())}")
