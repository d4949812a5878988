"""An analyst's energy of a run, from its samples.csv with pandas and numpy.

Arguments: a samples.csv. Prints for each host the first and the last time and the energy between them: rows without a
total dropped, one row per host and time, sorted, integrated by trapezoids.
"""

import json
import sys

import numpy
import pandas


def main():
    rows = pandas.read_csv(sys.argv[1]).dropna(subset=["total_power_w"])
    rows = rows.drop_duplicates(["hostname", "timestamp_unix"]).sort_values("timestamp_unix")
    hosts = {}
    for host, of_host in rows.groupby("hostname"):
        times = of_host["timestamp_unix"].to_numpy()
        joules = numpy.trapezoid(of_host["total_power_w"].to_numpy(), times)
        hosts[host] = {"from": repr(float(times[0])), "to": repr(float(times[-1])), "joules": float(joules)}
    print(json.dumps(hosts))


main()
