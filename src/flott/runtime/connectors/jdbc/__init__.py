"""The running half of the database connectors: one module for each dialect behind ``session.Session``.

session ◄── postgres, mysql, sqlite      one connection, in the words of a dialect
statements, placeholders                 SQL texts: pure
rows                                     records to rows of values: pure
connection                               a borrowed session that is replaced when it is lost, failures in words
table_layout                             which columns are written: pure, and from the catalog
*_writer                                 task side
staging, prepared                        the two ways to commit
validation                               checks at submission. Driver side
source                                   bounded reads
"""
