"""Reads every file of a run that others may read: each table as a directory, and the whole lines of samples.csv.

Arguments: the run. Prints how many rows each table has, lines that are not rows, and how many bytes are left after the
last line end of samples.csv.
"""

import csv
import json
import pathlib
import sys

import pyarrow.parquet


def main():
    run = pathlib.Path(sys.argv[1])
    rows = {}
    for table in sorted({part.parent for part in run.glob("*/*.parquet")}):
        rows[table.name] = pyarrow.parquet.read_table(table).num_rows
        # Polars, for one, refuses a directory that holds anything else.
        others = [path.name for path in table.iterdir() if path.suffix != ".parquet"]
        assert not others, (table, others)
    samples = run / "cpu" / "samples.csv"
    data = samples.read_bytes() if samples.exists() else b""
    whole, end, tail = data.rpartition(b"\r\n")
    lines = list(csv.reader((whole + end).decode().splitlines()))
    bad = [line for line in lines if len(line) != len(lines[0])]
    print(json.dumps({"rows": rows, "csv_rows": max(len(lines) - 1, 0), "bad": bad, "tail": len(tail)}))


main()
