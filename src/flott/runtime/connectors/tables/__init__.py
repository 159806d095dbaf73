"""What the connectors of table formats (Delta, Iceberg) have in common: files of rows, and a log that says which count.

    columns     rows into Arrow columns of a table's schema        names       what the files of a sink are called
    parts       Parquet files that a task writes                   changes     the last row of each key, for upserts
    steps       what a table's log says, as steps to read          enumerator  which slices an epoch reads (driver)
    reader      slices of data files into rows (task)
"""
