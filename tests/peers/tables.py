"""Tables of a run as pyarrow, pandas, Polars and DuckDB read them.

Arguments: the folders of the tables. Prints for each of them, by its name, each reader's columns with their types in
one vocabulary, how many rows there are and a digest of them; and the metadata of the first file.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import duckdb
import pandas
import polars
import pyarrow.parquet

UTC = datetime.timezone.utc


def kind(text):
    """The type in one vocabulary, whatever the reader calls it."""
    text = text.lower()
    for word, known in [("timestamp", "timestamp us utc"), ("datetime", "timestamp us utc"), ("double", "double"),
                        ("float", "double"), ("bool", "bool"), ("str", "string"), ("varchar", "string"),
                        ("object", "string"), ("int", "int64")]:
        if word in text:
            if known == "timestamp us utc":
                assert "utc" in text or "with time zone" in text, text
                assert "ms" not in text.replace("timestamp", "") and "ns" not in text, text
            if known == "int64":
                assert "64" in text or text == "bigint", text
            return known
    raise ValueError(text)


def cell(value):
    """One text for one value, whatever type the reader has for it."""
    if value is None or value is pandas.NaT or value is pandas.NA:
        return "-"
    if isinstance(value, float):
        return "-" if value != value else value.hex()
    if isinstance(value, datetime.datetime):
        since = value.astimezone(UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)
        return str(since // datetime.timedelta(microseconds=1))
    return str(value)


def digest(rows):
    lines = sorted("\t".join(map(cell, row)) for row in rows)
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read(folder):
    arrow = pyarrow.parquet.read_table(folder)
    yield "pyarrow", {f.name: kind(str(f.type)) for f in arrow.schema}, zip(*(c.to_pylist() for c in arrow.columns))
    # Arrow-backed, or a missing integer would make its column a float.
    frame = pandas.read_parquet(folder, dtype_backend="pyarrow")
    yield "pandas", {n: kind(str(t)) for n, t in frame.dtypes.items()}, frame.itertuples(index=False, name=None)
    scan = polars.scan_parquet(folder).collect()
    yield "polars", {n: kind(str(t)) for n, t in scan.schema.items()}, scan.iter_rows()
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    # DuckDB hands out times with a zone only with the help of a package that is not needed otherwise.
    relation = database.sql(f"SELECT * FROM '{folder}/*.parquet'")
    types = dict(zip(relation.columns, map(str, relation.types)))
    plain = ", ".join(f"epoch_us({n})" if "TIME ZONE" in t else n for n, t in types.items())
    rows = database.sql(f"SELECT {plain} FROM '{folder}/*.parquet'").fetchall()
    yield "duckdb", {n: kind(t) for n, t in types.items()}, rows


def table(folder):
    readers = {}
    for reader, types, rows in read(folder):
        count, digested = digest(rows)
        readers[reader] = {"types": types, "rows": count, "digest": digested}
    first = sorted(folder.glob("[!.]*.parquet"))[0]
    metadata = pyarrow.parquet.read_metadata(first).metadata
    ours = {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(b"wattscribe")}
    return {"readers": readers, "metadata": ours}


def main():
    print(json.dumps({folder.name: table(folder) for folder in map(pathlib.Path, sys.argv[1:])}))


main()
