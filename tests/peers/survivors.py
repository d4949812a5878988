"""Reads every file of a run that others may read: all Parquet files, and the whole lines of samples.csv.

Arguments: the run. Prints how many rows each table has, and what is left after the last line end of samples.csv.
"""

import csv
import json
import pathlib
import sys

import pyarrow.parquet


def main():
    run = pathlib.Path(sys.argv[1])
    rows = {}
    for part in sorted(run.glob("*/[!.]*.parquet")):
        rows[part.parent.name] = rows.get(part.parent.name, 0) + pyarrow.parquet.read_table(part).num_rows
    samples = run / "cpu" / "samples.csv"
    data = samples.read_bytes() if samples.exists() else b""
    whole, end, tail = data.rpartition(b"\r\n")
    lines = list(csv.reader((whole + end).decode().splitlines()))
    bad = [line for line in lines if len(line) != len(lines[0])]
    print(json.dumps({"rows": rows, "csv_rows": max(len(lines) - 1, 0), "bad": bad, "tail": len(tail)}))


main()
