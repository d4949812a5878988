"""samples.csv as its other readers take it: csv of the standard library, and rules that refuse what does not fit.

Arguments: the file, and the only versions that this reader knows. Prints the rows that it takes, and its reasons for
those that it does not.
"""

import csv
import json
import sys

COMMON = ["schema_version", "timestamp_unix", "hostname", "source", "sensor", "socket_id", "power_w"]
HEADERS = {
    2: COMMON + ["cpu_rail_w", "soc_w", "dram_w", "total_power_w"],
    3: COMMON + ["cpu_rail_w", "soc_w", "dram_w", "module_w", "total_power_w"],
}


def row(cells, version):
    if len(cells) != len(HEADERS[version]) or int(cells[0]) != version:
        raise ValueError(cells)
    named = dict(zip(HEADERS[version], cells))
    if not all(named[column] for column in ("hostname", "sensor")) or named["source"] not in ("acpi", "dcgm"):
        raise ValueError(cells)
    numbers = {column: float(text) if text else None for column, text in named.items() if column.endswith("_w")}
    if numbers["power_w"] is None:
        raise ValueError(cells)
    # Written as Python writes a float, so that the text comes back.
    for column, number in numbers.items():
        assert number is None or repr(number) == named[column], (column, named[column])
    assert repr(float(named["timestamp_unix"])) == named["timestamp_unix"], named
    return {**named, **numbers, "socket_id": int(named["socket_id"]), "timestamp_unix": float(named["timestamp_unix"])}


def main():
    path, versions = sys.argv[1], [int(version) for version in sys.argv[2:]]
    with open(path, "rb") as file:
        data = file.read()
    reasons, rows = [], []
    has_other_ends = data.count(b"\n") != data.count(b"\r\n") or not data.endswith(b"\r\n")
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, None)
        version = next((v for v in versions if HEADERS[v] == header), None)
        if version is None:
            reasons.append("cpu_samples_csv_header_mismatch")
        else:
            for cells in lines:
                try:
                    rows.append(row(cells, version))
                except ValueError:
                    reasons.append("cpu_samples_csv_malformed")
    print(json.dumps({"version": version, "rows": rows, "reasons": reasons, "has_other_ends": has_other_ends}))


main()
