"""Whether Prometheus has stored exactly what was published.

Arguments: a file with the pages that passed (content type and body), and one with the answer of a range query for all
series of that instance. A page is known by the time that it says it was made at; samples that Prometheus stored under
one timestamp came from one page. Prints how much was compared and every difference.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

MADE = "power_exposition_timestamp_seconds"
ADDED = {"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_series_added",
         "scrape_samples_post_metric_relabeling", "ALERTS", "ALERTS_FOR_STATE"}


def series(name, labels):
    return name, tuple(sorted(labels.items()))


def published(page):
    parse = openmetrics if "openmetrics" in page["content_type"] else text
    return {series(s.name, s.labels): s.value for family in parse(page["body"]) for s in family.samples}


def stored(matrix):
    """Values by time, then series."""
    scrapes = {}
    for row in matrix:
        labels = {name: value for name, value in row["metric"].items() if name not in ("instance", "job")}
        name = labels.pop("__name__")
        # A name with a colon is that of a rule.
        if name in ADDED or ":" in name:
            continue
        for time, value in row["values"]:
            scrape, key = scrapes.setdefault(time, {}), series(name, labels)
            assert key not in scrape, f"{key} twice at {time}"
            scrape[key] = float(value)
    return scrapes


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        pages = [published(page) for page in json.load(file)]
    by_time = {page[series(MADE, {})]: page for page in pages}
    with open(sys.argv[2], encoding="utf-8") as file:
        scrapes = stored(json.load(file))
    differences, samples = [], 0
    for time, scrape in scrapes.items():
        page = by_time.get(scrape.get(series(MADE, {})))
        if page is None:
            differences.append(f"{time}: no page that passed")
            continue
        samples += len(scrape)
        for key in sorted(page.keys() | scrape.keys()):
            if page.get(key) != scrape.get(key):
                differences.append(f"{time} {key}: published {page.get(key)}, stored {scrape.get(key)}")
    print(json.dumps({"scrapes": len(scrapes), "samples": samples, "differences": differences}))


main()
