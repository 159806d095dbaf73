"""A session: catalogs, settings, and the execution of statements. What TableEnvironment, shell and gateway share."""
