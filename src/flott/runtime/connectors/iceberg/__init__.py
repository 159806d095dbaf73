"""Iceberg tables through the ``pyiceberg`` library.

    tables     opening and creating tables                              log      snapshots as steps to read
    writer     data files of an epoch, and changes by key (task)        reader   slices of data files (task)
    data_file  what a manifest says of a file, as JSON
    committer  one commit for each checkpoint (driver)
"""
