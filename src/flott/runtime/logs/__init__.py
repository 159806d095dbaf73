"""What a job says: lines that its functions print and log, the files they are kept in, and how these are read."""
