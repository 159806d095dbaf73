"""``flott completion``: print the script that makes a shell complete commands, options and job ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation

_INSTALL = {
    "bash": 'eval "$(flott completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(flott completion zsh)"   # in ~/.zshrc',
    "fish": "flott completion fish > ~/.config/fish/completions/flott.fish",
}


@command("completion")
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@pass_invocation
def completion(invocation: Invocation, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options and job ids.

    \b
    bash: eval "$(flott completion bash)"   in ~/.bashrc
    zsh:  eval "$(flott completion zsh)"    in ~/.zshrc
    fish: flott completion fish > ~/.config/fish/completions/flott.fish
    """
    from flott.cli.root import flott

    made = get_completion_class(shell)
    assert made is not None, "click knows all three"
    script = made(flott, {}, "flott", "_FLOTT_COMPLETE").source()
    invocation.terminal.report(script, {"shell": shell, "script": script, "install": _INSTALL[shell]})
    if invocation.terminal.console.is_terminal:
        invocation.terminal.note(f"# To use it: {_INSTALL[shell]}")
