"""Wires clock, storage, runner, job master and display into jobs: the only package that knows them all."""
