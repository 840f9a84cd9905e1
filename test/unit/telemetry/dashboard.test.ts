import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { it } from "node:test";
import { METRICS, toPrometheusName, type MetricDefinition } from "gantry/adapters/telemetry";
import { ROOT } from "../../helpers/source-paths.js";

interface Dashboard {
  panels: { title: string; targets?: { expr: string }[] }[];
}

it("the dashboard has a panel for each metric, and queries only metrics and labels that exist", () => {
  const { panels } = JSON.parse(readFileSync(path.join(ROOT, "docs/grafana-dashboard.json"), "utf8")) as Dashboard;
  const metrics: readonly MetricDefinition[] = Object.values(METRICS);
  const shownPanels = panels.filter(({ targets }) => targets !== undefined);
  assert.deepEqual(shownPanels.map(({ title }) => title).sort(), metrics.map(toPrometheusName).sort());
  for (const metric of metrics) {
    const name = toPrometheusName(metric);
    const series = metric.kind === "histogram" ? `${name}_bucket` : name;
    const labels = new Set(["le", ...metric.labels.map((label) => label.replace(/\W/g, "_"))]);
    for (const { expr } of shownPanels.find(({ title }) => title === name)?.targets ?? []) {
      assert.match(expr, new RegExp(`\\b${series}\\{instance=~"\\$instance"\\}`));
      const [, group = ""] = /sum by \(([^)]*)\)/.exec(expr) ?? [];
      assert.deepEqual(
        group.split(", ").filter((label) => label !== "" && !labels.has(label)),
        [],
      );
    }
  }
});
