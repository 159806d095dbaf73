"""The commands of ``flott``, a module each; ``flott.cli.command_list`` lists them."""
