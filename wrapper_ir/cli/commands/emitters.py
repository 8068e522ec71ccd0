"""``wrapper-ir emitters``: which targets there are, and their options."""

from __future__ import annotations

import json
from typing import Any

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option


@click.command(epilog=examples("""
wrapper-ir emitters
wrapper-ir emitters --json | jq -r '.[].name'
"""))
@json_option
@traceback_option
def emitters(as_json: bool) -> None:
    """List the installed emitters with their options (-O key=value).

    Emitters are entry points of the group wrapper_ir.emitters; any package may bring one. One that
    cannot be loaded is listed with the reason.
    """
    from wrapper_ir.emitters import emitter_names

    found = [_describe(name) for name in emitter_names()]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for about in found:
        click.secho(about["name"], bold=True, nl=False)
        click.echo(f"  {about.get('error') or about['about']}")
        for option in about["options"]:
            default = f" (default: {option['default']})"
            click.echo(f"  -O {option['name']}={option['values']}{default}")
            if option["help"]:
                click.echo(f"       {option['help']}")


def _describe(name: str) -> dict[str, Any]:
    from wrapper_ir.emitters import emitter_class, options_of
    from wrapper_ir.errors import WrapperIRError

    try:
        emitter = emitter_class(name)
    except WrapperIRError as error:
        return {"name": name, "about": "", "error": error.message, "options": []}
    about = (emitter.__doc__ or "").strip().partition("\n")[0]
    options = [
        {"name": each.name, "values": each.takes, "default": each.default_text, "help": each.help}
        for each in options_of(emitter)
    ]
    return {"name": name, "about": about, "options": options}
