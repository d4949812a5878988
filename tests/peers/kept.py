"""Whether the table `readings` holds what a page says.

Arguments: the page's file, the run, the pattern that was kept. Prints the samples that the pattern names on the page,
the scrapes that recorded them, and every difference between the two.
"""

import json
import pathlib
import re
import sys

import pyarrow.parquet
from prometheus_client.parser import text_string_to_metric_families


def canonical(labels):
    escape = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    quoted = {name: "".join(escape.get(c, c) for c in value) for name, value in labels.items()}
    return ",".join(f'{name}="{value}"' for name, value in sorted(quoted.items()))


def main():
    body, run, pattern = sys.argv[1:]
    page = pathlib.Path(body).read_text(encoding="utf-8")
    wanted = {(s.name, canonical(s.labels)): s.value
              for family in text_string_to_metric_families(page) for s in family.samples
              if re.search(pattern, s.name)}
    rows = pyarrow.parquet.read_table(pathlib.Path(run) / "readings").to_pylist()
    scrapes = {}
    for row in rows:
        scrape, key = scrapes.setdefault(row["scrape_seq"], {}), (row["metric"], row["labels"])
        assert key not in scrape, f"{key} twice in scrape {row['scrape_seq']}"
        scrape[key] = row["value"]
    differences = [f"{seq} {key}: page {wanted.get(key)}, table {scrape.get(key)}"
                   for seq, scrape in scrapes.items() for key in sorted(wanted.keys() | scrape.keys())
                   if wanted.get(key) != scrape.get(key)]
    print(json.dumps({"wanted": len(wanted), "scrapes": len(scrapes), "differences": differences}))


main()
