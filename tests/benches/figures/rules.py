"""The built-in rules by hand, for a fleet of superchips that is scraped once a second and never fails: a run, and where to."""

import os
import sys

import duckdb

run, out = sys.argv[1:3]
os.makedirs(out)
base = duckdb.connect()
base.sql(f"""
CREATE TEMP TABLE gpu AS
SELECT metric, target AS node, regexp_extract(labels, 'socket="(\\d+)"', 1) AS socket,
       ceil(epoch(timestamp))::BIGINT AS sec, value
FROM read_parquet('{run}/readings/*.parquet')
WHERE metric IN ('gpu_module_power_watts', 'accelerator_power_watts') AND value > 0 AND isfinite(value);

CREATE TEMP TABLE socket AS
SELECT hostname AS node, socket_id::TEXT AS socket, epoch(timestamp) AS ts, ceil(epoch(timestamp))::BIGINT AS sec, power_w
FROM read_parquet('{run}/cpu_samples/*.parquet') WHERE power_w > 0;

CREATE TEMP TABLE module AS
SELECT node, socket, sec, CASE WHEN max(value) - min(value) <= 0.05 * avg(value) THEN avg(value) END AS w
FROM gpu WHERE metric = 'gpu_module_power_watts' GROUP BY ALL;

CREATE TEMP TABLE accelerator AS
SELECT node, socket, sec, sum(value) AS w, count(*) AS n
FROM gpu WHERE metric = 'accelerator_power_watts' GROUP BY ALL;

CREATE TEMP TABLE residual AS
SELECT node, socket, sec, m.w - s.power_w - a.w AS w
FROM module m JOIN socket s USING (node, socket, sec) JOIN accelerator a USING (node, socket, sec);

CREATE TEMP TABLE node_module AS SELECT node, sec, CASE WHEN count(w) = 2 THEN sum(w) END AS w FROM module GROUP BY ALL;
CREATE TEMP TABLE node_acpi AS SELECT node, sec, CASE WHEN count(*) = 2 THEN sum(power_w) END AS w FROM socket GROUP BY ALL;
CREATE TEMP TABLE node_gpu AS SELECT node, sec, CASE WHEN sum(n) = 8 THEN sum(w) END AS w FROM accelerator GROUP BY ALL;

CREATE TEMP TABLE fleet AS
SELECT rule, sec, CASE WHEN count(w) = 1000 THEN sum(w) END AS w FROM (
  SELECT 'module' AS rule, * FROM node_module UNION ALL
  SELECT 'acpi', * FROM node_acpi UNION ALL
  SELECT 'accelerator', * FROM node_gpu) GROUP BY ALL;

CREATE TEMP TABLE energy AS
SELECT rule, node, minute, sum(j) AS j FROM (
  SELECT 'acpi' AS rule, node, sec // 60 AS minute, (power_w + lag(power_w) OVER w) / 2 * (ts - lag(ts) OVER w) AS j
  FROM socket WINDOW w AS (PARTITION BY node, socket ORDER BY ts)
  UNION ALL
  SELECT 'module', node, sec // 60, (w + lag(w) OVER v) / 2 * (sec - lag(sec) OVER v)
  FROM module WINDOW v AS (PARTITION BY node, socket ORDER BY sec)
  UNION ALL
  SELECT 'accelerator', node, sec // 60, (w + lag(w) OVER v) / 2 * (sec - lag(sec) OVER v)
  FROM accelerator WINDOW v AS (PARTITION BY node, socket ORDER BY sec)) GROUP BY ALL;

CREATE TEMP TABLE fleet_energy AS
SELECT rule, minute, CASE WHEN count(j) = 1000 THEN sum(j) END AS j FROM energy WHERE rule <> 'accelerator' GROUP BY ALL;

CREATE TEMP TABLE shape AS
SELECT node, sec // 60 AS minute, max(w) AS most, quantile_cont(w, 0.95) AS p95 FROM node_acpi GROUP BY ALL;
""")
tables = "module residual node_module node_acpi node_gpu fleet energy fleet_energy shape".split()
for table in tables:
    base.sql(f"COPY {table} TO '{out}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
