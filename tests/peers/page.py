"""What others read from a page of the exporter.

Arguments: the page's file. Prints every sample as prometheus_client parses it, and what a collector of CPU power makes
of the three compatibility families: the rules by which samples.csv was first written.
"""

import json
import math
import sys

from prometheus_client.parser import text_string_to_metric_families

KINDS = {"total": "total", "cpu_rail": "cpu_rail", "soc": "soc", "dram": "dram",
         "grace": "total", "cpu": "cpu_rail", "sysio": "soc"}
FIELDS = {"1130": ["primary", "cpu_rail"], "1132": ["soc"]}


def readings(samples):
    """(family, socket, kind, watts) of what is power; the first of each socket and kind counts."""
    for sample in samples:
        labels, watts = sample.labels, sample.value
        if not (math.isfinite(watts) and watts > 0):
            continue
        if sample.name == "cpu_power_acpi_watts":
            kind = KINDS.get(labels["type"])
            if kind and labels["socket"].isdigit():
                yield "acpi", int(labels["socket"]), kind, watts
        elif sample.name == "cpu_power_dcgm_watts":
            for kind in FIELDS.get(labels.get("field_id") or "1130", []):
                yield "dcgm", int(labels["socket"]), kind, watts
        elif sample.name == "cpu_power_nvml_watts" and labels["type"] == "module":
            yield "nvml", int(labels["socket"]), "module", watts


def collected(samples):
    """Sockets by number, of ACPI when it has any reading, else of DCGM."""
    found = {}
    for family, socket, kind, watts in readings(samples):
        found.setdefault(family, {}).setdefault(socket, {}).setdefault(kind, watts)
    mode = "acpi" if "acpi" in found else "dcgm" if "dcgm" in found else "unknown"
    primary = "total" if mode == "acpi" else "primary"
    sockets = {n: kinds for n, kinds in sorted(found.get(mode, {}).items()) if primary in kinds}
    total = sum(kinds[primary] for kinds in sockets.values()) if sockets else None
    return {"mode": mode, "sockets": {str(n): kinds for n, kinds in sockets.items()}, "total_w": total}


def main():
    with open(sys.argv[1], encoding="utf-8") as page:
        families = list(text_string_to_metric_families(page.read()))
    samples = [sample for family in families for sample in family.samples]
    print(json.dumps({
        "families": sorted(family.name for family in families),
        "samples": [[s.name, s.labels, repr(float(s.value))] for s in samples],
        "collected": collected(samples),
    }))


main()
