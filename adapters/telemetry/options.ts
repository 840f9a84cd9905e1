import { option } from "gantry/plugin";

function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text);
}

/** The config section `telemetry`. */
export const telemetryOptions = option.section(
  {
    prometheus: option.flag(
      "Serve `GET /metrics` in the format of Prometheus on the HTTP port, under the same access rules as `/api`.",
      { default: false },
    ),
    otlp: option.section(
      {
        endpoint: option.text(
          "Base URL of an OTLP collector that accepts JSON over HTTP, such as `http://127.0.0.1:4318`. `/v1/metrics` and `/v1/traces` are added.",
          { required: true, expected: "an http or https URL", fits: isHttpUrl },
        ),
        headers: option.headers("Headers of each request, such as a key of the collector. They are secret.", {
          default: {},
          sent: true,
        }),
        metrics: option.flag("Send metrics.", { default: true }),
        traces: option.flag("Send traces.", { default: true }),
        interval: option.number("Interval between two exports of metrics.", {
          unit: "seconds",
          min: 1,
          max: 3_600,
          default: 60,
        }),
      },
      { optional: true },
    ),
    service_name: option.text("Name of this server in metrics and traces (`service.name`).", {
      default: "gantry",
      expected: "a name",
      fits: (name: string) => name.trim() !== "",
    }),
    content: option.flag(
      "Whether spans contain messages, arguments and results, without keys and cut to 16,384 characters each.",
      { default: false },
    ),
  },
  {
    expected: "an object with the keys prometheus, otlp, service_name, content",
    rule: ({ prometheus, otlp }) =>
      prometheus || otlp ? undefined : { key: "prometheus", expected: "true, or an otlp section beside it" },
  },
);

export type TelemetryOptions = option.Value<typeof telemetryOptions>;
