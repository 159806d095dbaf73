"""DataFrames and tables of Spark, by way of Parquet files that both Flott and Spark read and write.

    dataframes  reads what a DataFrame was written as             session    what the Spark session of the driver does
    writer      stages rows as Parquet files (task)               committer  hands them to Spark at the end (driver)
"""
