import { defineAdapter } from "gantry/plugin";
import { OpenTelemetry } from "./open-telemetry.js";
import { telemetryOptions, type TelemetryOptions } from "./options.js";

export { METRICS, toPrometheusName, type MetricDefinition, type MetricKind } from "./metrics.js";

/** Metrics and traces. The config section `telemetry` selects this adapter. */
export default defineAdapter<"hooks", TelemetryOptions>({
  kind: "hooks",
  name: "telemetry",
  schema: telemetryOptions,
  create: (options, { logger }) => new OpenTelemetry(options, logger),
});
