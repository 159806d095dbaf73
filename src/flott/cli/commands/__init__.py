"""The modules of the commands of ``flott``. ``flott.cli.command_list`` lists the commands."""
