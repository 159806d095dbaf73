"""The halves of formats that need a library or a server. Task side."""
