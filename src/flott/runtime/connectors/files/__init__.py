"""Files as input and output: listing, slicing, reading; staging, rolling, publishing.

    discovery   which files there are                 names      what staged, pending and published files are called
    layout      where a file may be cut               writer     stages an epoch's output           (task)
    enumerator  which slices an epoch reads (driver)  committer  publishes it                       (driver)
    reader      slices into records (task)            durable    the few file system steps both are made of
    lines, text_records, csv_records, parquet         the formats
"""
