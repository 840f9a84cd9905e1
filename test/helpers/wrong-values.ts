import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { hasCode } from "gantry";
import type { option } from "gantry/plugin";
import { loadConfigWithFlags, type ConfigFlags } from "../../src/cli/command.js";
import { loadAdapter } from "../../src/serve/plugins.js";
import { parseOptions } from "../../src/serve/parse-options.js";
import { Selection } from "../../src/serve/selected-adapters.js";

/** The error of `gantry adapters` for a config; undefined if the config is valid. */
export async function readConfigError(config: unknown, flags: ConfigFlags = {}): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "gantry-config-"));
  const file = join(folder, "config.json");
  try {
    await writeFile(file, JSON.stringify(config));
    const { loadedConfig, home } = await loadConfigWithFlags({ config: file, ...flags });
    const selection = new Selection(loadedConfig, home);
    const telemetry = selection.telemetry() ?? [];
    const providers = await selection.providers();
    const selectedAdapters = [
      ...selection.transports(),
      selection.driver(),
      ...providers,
      ...selection.hooks(),
      telemetry,
    ];
    for (const selectedAdapter of selectedAdapters.flat()) {
      const descriptor = await loadAdapter(
        selectedAdapter.kind,
        selectedAdapter.name,
        loadedConfig.folder,
        `${file}: ${selectedAdapter.key}`,
      );
      const location = `${file}: ${selectedAdapter.section}`;
      parseOptions(selectedAdapter, descriptor, {
        location,
        configDir: loadedConfig.folder,
        home,
        projectDir: resolve("."),
      });
    }
    return undefined;
  } catch (error) {
    if (!hasCode(error, "config") && !hasCode(error, "adapter")) throw error;
    return error.message.replaceAll(file, "config.json");
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** An invalid value for an option. */
function createWrongValue({ docs: { json, type } }: option.Option<unknown>): unknown {
  if ("enum" in json) return "wrong";
  if (type === "object") return "Authorization";
  if (json["type"] === "array" || json["type"] === "boolean") return "yes";
  return json["type"] === "string" ? 5 : json["type"] === "integer" ? 1.5 : -1;
}

/** Creates a minimal valid config except for `value` under `key` of `section`. */
function createConfig(section: string, key: string, value: unknown): unknown {
  const nestedValue = key.split(".").reduceRight<unknown>((child, name) => ({ [name]: child }), value) as object;
  const providerFields = { name: "lab", base_url: "http://127.0.0.1:9000/v1" };
  if (section === "providers") return { providers: [{ ...providerFields, ...nestedValue }] };
  if (section === "providers[].models[]")
    return {
      providers: [{ ...providerFields, models: [{ id: "m", ...nestedValue, ...addRequiredCost(nestedValue) }] }],
    };
  if (section === "server.webhooks[]") {
    const webhook = { url: "https://example.com/events", secret: `whsec_${"a".repeat(32)}`, ...nestedValue };
    return { server: { webhooks: [webhook] } };
  }
  if (section === "permissions.rules[]")
    return { permissions: { rules: [{ tool: "a", action: "ask", ...nestedValue }] } };
  if (section === "mcp_servers.NAME") {
    const isUrl = /^(url|headers|type)$/.test(key);
    return {
      mcp_servers: { lab: { ...(isUrl ? { url: "http://127.0.0.1:9000/mcp" } : { command: "lab" }), ...nestedValue } },
    };
  }
  if (section === "telemetry" && key.startsWith("otlp.")) {
    const { otlp } = nestedValue as { otlp: object };
    return { telemetry: { otlp: { endpoint: "http://127.0.0.1:4318", ...otlp } } };
  }
  if (section.includes("postgres")) {
    const url = "postgres://127.0.0.1:9/gantry";
    return { session: { driver: "postgres", url, ...nestedValue } };
  }
  if (section.includes("offline")) return { providers: [{ provider: "offline", ...nestedValue }] };
  return { [section]: nestedValue };
}

/** Adds the fields that a price requires. */
function addRequiredCost(nestedValue: object): object {
  return "cost" in nestedValue ? { cost: { input: 1, output: 1, ...(nestedValue.cost as object) } } : {};
}

type Leaves = readonly (readonly [key: string, leaf: option.Option<unknown>])[];

/** Messages for a wrong value of each option, for an unknown key of each section, and for wrong flags. */
export async function createWrongValuesTable(sections: Readonly<Record<string, Leaves>>): Promise<string> {
  const rows: [option: string, value: unknown, message: string | undefined][] = [];
  for (const [section, leaves] of Object.entries(sections)) {
    for (const [key, leaf] of leaves) {
      if (section.includes("offline") && key === "provider") continue;
      const wrongValue = createWrongValue(leaf);
      rows.push([`${section} ${key}`, wrongValue, await readConfigError(createConfig(section, key, wrongValue))]);
    }
    rows.push([`${section} (unknown)`, 1, await readConfigError(createConfig(section, "nonsense", 1))]);
    rows.push([
      `${section} (itself)`,
      5,
      await readConfigError(
        section.startsWith("permissions.")
          ? { permissions: { rules: [5] } }
          : section.startsWith("server.")
            ? { server: { webhooks: [5] } }
            : section.startsWith("mcp_servers")
              ? { mcp_servers: { lab: 5 } }
              : section.includes("[")
                ? { providers: [5] }
                : { [section.split(" ")[0] ?? ""]: 5 },
      ),
    ]);
  }
  rows.push(["mcp_servers (itself)", 5, await readConfigError({ mcp_servers: 5 })]);
  rows.push(["mcp_servers (name)", "a b", await readConfigError({ mcp_servers: { "a b": { command: "x" } } })]);
  rows.push(["(unknown)", 1, await readConfigError({ nonsense: 1 })], ["(itself)", [], await readConfigError([])]);
  for (const [name, flags] of [
    ["--port http", { port: "http" }],
    ["--port 65536", { port: "65536" }],
    ["--acp-profile wrong", { acpProfile: "wrong" }],
    ["--session-driver wrong", { sessionDriver: "wrong" }],
    ["--transport wrong", { transport: ["wrong"] }],
    ["--stdio", { stdio: true }],
  ] as const)
    rows.push([name, undefined, await readConfigError({}, flags as ConfigFlags)]);
  const escapeCell = (text = "") => text.replaceAll("|", "\\|");
  const lines = rows.map(
    ([option, value, message]) =>
      `| \`${option.replaceAll("`", "")}\` | ${value === undefined ? "" : `\`${JSON.stringify(value)}\``} | ${escapeCell(message ?? "**accepted**")} |`,
  );
  return [
    "# Error messages of wrong config values",
    "",
    "Generated by `npm run docs`; a test compares it.",
    "",
    "| Option | Value | Message |",
    "| --- | --- | --- |",
    ...lines,
    "",
  ].join("\n");
}
