"""Delta tables through the ``deltalake`` library.

    tables     opening and creating tables; what tasks need to know of one      log        versions as steps to read
    writer     data files of an epoch, and changes by key (task)                stats      what a log says of a file
    committer  one transaction for each checkpoint (driver)
"""
