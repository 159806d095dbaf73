"""The only room that imports pyspark: an epoch as one Spark job."""

import warnings

# PySpark warns about a pandas that Flott does not use.
warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
