"""The reference of the command line, from the help of its commands."""

from __future__ import annotations

import re

COMMAND_LIST = re.compile(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n?")  # shortened texts; the page lists them


def write_command_page() -> str:
    """Return the page of all commands, as `sweep COMMAND --help` describes them."""
    import typer
    from typer.cli import get_docs_for_click

    from sweep_service.cli.app import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="sweep"), name="sweep")
    return COMMAND_LIST.sub("", text).replace("# `sweep`\n", "# Command line\n", 1)
