"""The command line, a module a group of commands. Each command's body imports what it needs, so that a small command
starts quickly."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import NoReturn

import click

from topocheck import __version__
from topocheck.errors import TopocheckError
from topocheck.exits import STYLES, Style, failure_code

# What is read lives until the report is written: to look for garbage every 700 objects is a tenth of a run's CPU time.
_MOST_NEW_OBJECTS = 50_000

MODULES: Mapping[str, str] = {  # command → its module
    "bind": "views",
    "capture": "record",
    "fleet": "fleeting",
    "gate": "gating",
    "graph": "views",
    "node": "diagnose",
    "path": "views",
    "predict": "predicting",
    "rules": "diagnose",
}


class Commands(click.Group):
    """Commands that are imported when they are asked for: the gate runs before every job."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All there are."""
        return sorted(MODULES)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        """The one of that name."""
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(import_module(f"topocheck.cli.{MODULES[cmd_name]}"), cmd_name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="topocheck", message="%(prog)s %(version)s")
def cli() -> None:
    """Inspect the hardware topology of a GPU server and price what is wrong with it."""


def main() -> NoReturn:
    """The console script. Whatever goes wrong, the exit code is never that of a finding, and there is no traceback."""
    gc.set_threshold(_MOST_NEW_OBJECTS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended then, too
    code = run(sys.argv[1:])
    if sys.argv[1:2] == ["gate"]:
        with suppress(OSError, AttributeError):  # closed, or none
            sys.stderr.flush()
        os._exit(code)  # a child did the work: the interpreter has nothing to tidy up but itself, which takes a while
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = cli.main(args=arguments or ["--help"], prog_name="topocheck", standalone_mode=False)
        return code or 0 if arguments else failure_code("plain")
    except click.ClickException as error:
        return _failed(arguments, f"{error.format_message()} (topocheck --help says more)")
    except TopocheckError as error:
        return _failed(arguments, str(error))
    except (click.Abort, KeyboardInterrupt):
        return _failed(arguments, "interrupted")
    except Exception as error:
        if os.environ.get("TOPOCHECK_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        reason = f"internal error: {type(error).__name__}: {error}"
        return _failed(arguments, f"{reason}: please report it (TOPOCHECK_DEBUG=1 shows where)")


def _failed(arguments: list[str], reason: str) -> int:
    """Say in one line what was wrong; the exit code for it in the style asked for."""
    if sys.stderr is not None:
        print("topocheck:", " ".join(reason.split()), file=sys.stderr)
    return failure_code(_asked_style(arguments), fail_closed="--fail-closed" in arguments)


def _asked_style(arguments: list[str]) -> Style:
    """The exit style of a command line that may be wrong elsewhere. A gate that was called wrongly lets jobs pass; who
    tries something by hand wants to be told."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    named = [value for flag, value in pairwise(words) if flag == "--exit-style"]
    by_hand = {"--show", "--drill"} & set(words)
    default: Style = "slurm" if arguments[:1] == ["gate"] and not by_hand else "plain"
    return next((style for style in STYLES if style in named), default)
