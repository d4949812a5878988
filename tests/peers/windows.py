"""Energy windows as pandas reads them.

Arguments: the folder of the table. Prints the rows, with null for what is missing.
"""

import json
import sys

import pandas


def main():
    windows = pandas.read_parquet(sys.argv[1], dtype_backend="pyarrow")
    rows = windows.astype(object).where(windows.notna(), None).to_dict("records")
    print(json.dumps(rows))


main()
