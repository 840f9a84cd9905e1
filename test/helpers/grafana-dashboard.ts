import { METRICS, toPrometheusName, type MetricDefinition } from "gantry/adapters/telemetry";

/** Width and height of a panel in the grid of Grafana, which has 24 columns. */
const PANEL = { width: 8, height: 8 };
const COLUMNS = 24;

/** Units of Grafana by the units of metrics. Others are plain numbers. */
const GRAFANA_UNITS: Readonly<Record<string, string>> = { s: "s", By: "bytes", "{USD}": "currencyUSD" };

/** Labels of the legend of a panel. The others are summed up, so that a panel has few lines. */
const LEGEND_LABELS: ReadonlySet<string> = new Set([
  ...["state", "reason", "gen_ai.request.model", "gen_ai.token.type", "tool", "outcome", "change", "method"],
  ...["quantile", "type", "mode"],
]);

interface Query {
  expr: string;
  legendFormat: string;
}

/** Returns the dashboard of all metrics: a row for each group, a panel for each metric. */
export function createDashboard(): object {
  const metrics: MetricDefinition[] = Object.values(METRICS);
  const groups = [...new Set(metrics.map(({ group }) => group))];
  const panels: object[] = [];
  let y = 0;
  for (const group of groups) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title: group,
      collapsed: false,
      gridPos: toPosition(0, y, COLUMNS, 1),
    });
    y += 1;
    const groupMetrics = metrics.filter((metric) => metric.group === group);
    for (const [i, metric] of groupMetrics.entries()) {
      const column = (i * PANEL.width) % COLUMNS;
      if (i > 0 && column === 0) y += PANEL.height;
      panels.push(createPanel(metric, panels.length + 1, toPosition(column, y, PANEL.width, PANEL.height)));
    }
    y += PANEL.height;
  }
  return {
    title: "gantry",
    uid: "gantry",
    tags: ["gantry"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    refresh: "30s",
    time: { from: "now-1h", to: "now" },
    templating: { list: [createSourceVariable(), createInstanceVariable()] },
    panels,
  };
}

function createPanel(metric: MetricDefinition, id: number, gridPos: object): object {
  const rate =
    metric.kind === "histogram" || metric.unit in GRAFANA_UNITS ? "" : metric.kind === "counter" ? "ops" : "short";
  return {
    id,
    type: "timeseries",
    title: toPrometheusName(metric),
    description: metric.about.replaceAll("`", ""),
    datasource: { type: "prometheus", uid: "${datasource}" },
    gridPos,
    fieldConfig: { defaults: { unit: GRAFANA_UNITS[metric.unit] ?? (rate || "short"), min: 0 }, overrides: [] },
    targets: createQueries(metric).map((query, i) => ({ refId: String.fromCharCode(65 + i), ...query })),
  };
}

function createQueries(metric: MetricDefinition): Query[] {
  const name = toPrometheusName(metric);
  const labels = metric.labels.filter((label) => LEGEND_LABELS.has(label)).map((label) => label.replace(/\W/g, "_"));
  const legend = labels.map((label) => `{{${label}}}`).join(" ");
  const selector = '{instance=~"$instance"}';
  if (metric.kind === "histogram") {
    const by = ["le", ...labels].join(", ");
    return [50, 95].map((percent) => ({
      expr: `histogram_quantile(${percent / 100}, sum by (${by}) (rate(${name}_bucket${selector}[$__rate_interval])))`,
      legendFormat: `p${percent} ${legend}`.trim(),
    }));
  }
  const series = metric.kind === "gauge" ? `${name}${selector}` : `rate(${name}${selector}[$__rate_interval])`;
  return [
    {
      expr: labels.length > 0 ? `sum by (${labels.join(", ")}) (${series})` : `sum(${series})`,
      legendFormat: legend || name,
    },
  ];
}

function createSourceVariable(): object {
  return { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" };
}

function createInstanceVariable(): object {
  return {
    name: "instance",
    type: "query",
    label: "Instance",
    datasource: { type: "prometheus", uid: "${datasource}" },
    query: "label_values(gantry_uptime_seconds, instance)",
    refresh: 2,
    multi: true,
    includeAll: true,
    allValue: ".*",
    current: { text: "All", value: "$__all" },
  };
}

const toPosition = (x: number, y: number, w: number, h: number) => ({ x, y, w, h });
