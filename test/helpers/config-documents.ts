// `npm run docs` generates documents from the code. Option definitions give the tables of docs/configuration.md,
// docs/config.schema.json and test/unit/serve/wrong-values.md (the error for each wrong value). The shapes and paths of
// the HTTP API give docs/openapi.json. The metrics give the table of docs/telemetry.md and docs/grafana-dashboard.json. It also copies the version of package.json.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { format, resolveConfig } from "prettier";
import { option, type JsonSchema, type StandardSchema } from "gantry/plugin";
import acpHttp from "gantry/adapters/acp-http-sse-ws";
import acpStdio from "gantry/adapters/acp-stdio";
import aiSdk, { WIRES } from "gantry/adapters/language-models";
import koa from "gantry/adapters/koa-http-api";
import json from "gantry/adapters/lowdb-json-driver";
import offline from "gantry/adapters/offline-provider";
import postgres from "gantry/adapters/postgres-driver";
import sqlite from "gantry/adapters/sqlite-driver";
import telemetry, { METRICS, toPrometheusName, type MetricDefinition } from "gantry/adapters/telemetry";
import webhooks from "gantry/adapters/webhooks";
import webConsole from "gantry/adapters/web-console";
import { createOpenApiDocument } from "../../adapters/koa-http-api/openapi.js";
import { configOptions } from "../../src/serve/config-options.js";
import { loadFullSection } from "../../src/serve/config.js";
import { createDashboard } from "./grafana-dashboard.js";
import { createWrongValuesTable } from "./wrong-values.js";

export const DOCS_COMMAND = "npm run docs";

type OptionDefinition = option.Option<unknown>;

const readEntries = ({ schema }: { schema?: StandardSchema<never> | StandardSchema }) =>
  (schema as option.Section).entries;
const { session, permissions } = configOptions.entries;
const provider = readEntries(aiSdk);
const rule = permissions.entries.rules.docs.item as unknown as option.Section;
const mcpServer = configOptions.entries.mcp_servers.docs.item as unknown as option.Section;
const server = option.section({ ...(await loadFullSection("server")).entries, ...readEntries(webhooks) });
const webhook = (readEntries(webhooks)["webhooks"] as OptionDefinition).docs.item as unknown as option.Section;
const model = (provider["models"] as OptionDefinition).docs.item as unknown as option.Section;

/** All sections of the config file, including those of adapters, by the name of their table. */
export const SECTIONS: Readonly<Record<string, option.Section>> = {
  ...(configOptions.entries as unknown as Record<string, option.Section>),
  server,
  "server.webhooks[]": webhook,
  acp: await loadFullSection("acp"),
  session: option.section({ ...session.entries, ...readEntries(sqlite) }),
  'session with `"driver": "postgres"`': option.section(readEntries(postgres)),
  providers: option.section(provider),
  "providers[].models[]": model,
  telemetry: option.section(readEntries(telemetry)),
  "permissions.rules[]": rule,
  "mcp_servers.NAME": mcpServer,
  'providers[] with `"provider": "offline"`': option.section(readEntries(offline)),
};
for (const key of ["$schema", "mcp_servers", "hooks"]) delete (SECTIONS as Record<string, unknown>)[key];

/** The options of a section with their full keys. */
export function listOptions({ entries }: option.Section, keyPrefix = ""): [key: string, leaf: OptionDefinition][] {
  return Object.entries(entries).flatMap(([name, entry]): [string, OptionDefinition][] => {
    const leaf = entry as OptionDefinition;
    return leaf.docs.entries ? listOptions(leaf as option.Section, `${keyPrefix}${name}.`) : [[keyPrefix + name, leaf]];
  });
}

/** The table shows `a list` instead of a longer default. */
const MAX_DEFAULT_CHARACTERS = 40;

function createTable(section: option.Section): string {
  const escapeCell = (text: string) => text.replaceAll("|", "\\|");
  const rows = listOptions(section).map(([key, { docs }]) => {
    const value = JSON.stringify(docs.default);
    const defaultCell = docs.required
      ? "required"
      : value === undefined
        ? ""
        : value.length > MAX_DEFAULT_CHARACTERS
          ? "a list"
          : `\`${value}\``;
    return `| \`${key}\` | ${escapeCell(docs.type || "list")} | ${escapeCell(defaultCell)} | ${escapeCell(docs.about)} |`;
  });
  return ["| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

const TABLE_PATTERN = /(<!-- options of (.+?) -->\n)[^]*?(\n<!-- end -->)/g;

/** The page with regenerated tables. */
export async function createConfigurationPage(page: string): Promise<string> {
  const newPage = page.replace(TABLE_PATTERN, (_all, begin: string, name: string, end: string) => {
    const section = SECTIONS[name];
    if (!section) throw new Error(`docs/configuration-reference.md: there are no options of ${name}`);
    return `${begin}\n${createTable(section)}\n${end}`;
  });
  return formatDocument(newPage, "configuration-reference.md");
}

/** The page with the table of all metrics. */
async function createTelemetryPage(page: string): Promise<string> {
  const rows = Object.values(METRICS).map((metric: MetricDefinition) => {
    const labels = metric.labels.map((label) => `\`${label.replace(/\W/g, "_")}\``).join(", ");
    return `| \`${toPrometheusName(metric)}\` | ${metric.kind} | ${metric.unit} | ${labels} | ${metric.about} |`;
  });
  const table = ["| Metric | Kind | Unit | Labels | Meaning |", "| --- | --- | --- | --- | --- |", ...rows].join("\n");
  const newPage = page.replace(
    /(<!-- metrics -->\n)[^]*?(\n<!-- end -->)/,
    (_all, begin: string, end: string) => `${begin}\n${table}\n${end}`,
  );
  return formatDocument(newPage, "telemetry.md");
}

/** JSON Schema of a config. Constraints between options are included as far as JSON Schema can express them. */
export function createConfigSchema(): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  for (const [name, entry] of Object.entries(configOptions.entries))
    properties[name] = createSchema(SECTIONS[name] ?? entry);
  const drivers = { driver: { enum: ["sqlite", "json"] } };
  const { properties: storeProperties } = createSchema(option.section({ ...session.entries, ...readEntries(json) }));
  properties["session"] = {
    ...createSchema(session),
    if: { properties: drivers },
    then: { properties: storeProperties, additionalProperties: false },
    else: {
      if: { properties: { driver: { const: "postgres" } } },
      then: createSchema(option.section({ ...session.entries, ...readEntries(postgres) })),
    },
  };
  const providerSchema = createSchema(option.section(provider));
  properties["providers"] = {
    ...createSchema(configOptions.entries.providers),
    items: {
      type: "object",
      if: { properties: { provider: { const: "offline" } }, required: ["provider"] },
      then: createSchema(option.section(readEntries(offline))),
      else: {
        if: { properties: { driver: { enum: WIRES } } },
        then: { ...providerSchema, anyOf: [{ required: ["provider"] }, { required: ["name", "base_url"] }] },
      },
    },
  };
  const transports = [koa, webConsole, acpHttp, acpStdio].map((descriptor) => ({
    if: { type: "object", properties: { transport: { const: descriptor.name } }, required: ["transport"] },
    then: createSchema(option.section({ transport: option.text("Its name."), ...readEntries(descriptor) })),
  }));
  const server = properties["server"] as { properties: Record<string, { items: object }> };
  server.properties["transports"] = {
    ...server.properties["transports"],
    items: { ...server.properties["transports"]?.items, allOf: transports },
  };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "gantry's config.json",
    type: "object",
    properties,
    additionalProperties: false,
  };
}

/** JSON Schema of an option's value. */
function createSchema(entry: option.Entries[string]): JsonSchema & { properties?: Record<string, JsonSchema> } {
  const { docs } = entry as Partial<OptionDefinition>;
  if (!docs) return { ...(entry as StandardSchema)["~standard"].jsonSchema?.input({ target: "draft-07" }) };
  const { about, json: ownSchema, entries, open = false, item, isMap = false, orText, default: defaultValue } = docs;
  const description = about.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  const annotations = {
    ...(description === "" ? {} : { description }),
    ...(defaultValue === undefined || entries ? {} : { default: defaultValue }),
  };
  if (item) return { ...annotations, ...ownSchema, [isMap ? "additionalProperties" : "items"]: createSchema(item) };
  if (!entries) {
    // An environment variable may supply an enumerated value.
    const isRestricted = ownSchema["type"] === "string" && Object.keys(ownSchema).length > 1;
    return isRestricted
      ? { ...annotations, anyOf: [ownSchema, { type: "string", pattern: "\\$\\{\\w+\\}" }] }
      : { ...annotations, ...ownSchema };
  }
  const required = Object.keys(entries).filter((key) => (entries[key] as Partial<OptionDefinition>).docs?.required);
  const object = {
    ...annotations,
    ...ownSchema,
    properties: Object.fromEntries(Object.entries(entries).map(([key, child]) => [key, createSchema(child)])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: open,
  };
  return orText ? { anyOf: [{ type: "string", minLength: 1 }, object] } : object;
}

/** Formats a text with the repository's settings. */
export async function formatDocument(text: string, name: string): Promise<string> {
  const filepath = fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
  return format(text, { ...(await resolveConfig(filepath)), filepath });
}

const VERSION_PATTERN = "\\d+\\.\\d+\\.\\d+(?:-[\\w.-]+?)?";
/** Locations of the version: file, and the patterns before and after the version. */
const VERSION_LOCATIONS: readonly [path: string, patternBefore: string, patternAfter: string][] = [
  ["docs/installing.md", "gantry-", "\\.tgz"],
  ["docs/http-api.md", '"status":"\\w+","version":"', '"'],
  ["docs/acp.md", '"agentInfo":{"name":"gantry","title":"Gantry","version":"', '"'],
  ["docs/acp-registry/agent.json", '^  "version": "', '"'],
  ["docs/acp-registry/agent.json", '"package": "[^"@]+@', '"'],
  ["package-lock.json", '"name": "gantry",\\n +"version": "', '"'],
];

/** Replaces the version in the text of a file of VERSION_LOCATIONS. Texts of other files stay unchanged. */
export function replaceVersion(path: string, text: string, version: string): string {
  return VERSION_LOCATIONS.filter(([file]) => file === path).reduce(
    (result, [, patternBefore, patternAfter]) =>
      result.replace(new RegExp(`(${patternBefore})${VERSION_PATTERN}(?=${patternAfter})`, "gm"), `$1${version}`),
    text,
  );
}

/** All generated documents: their file, current text and expected text. */
export async function listDocuments(): Promise<{ file: URL; currentText: string; expectedText: string }[]> {
  const leaves = Object.fromEntries(Object.entries(SECTIONS).map(([name, section]) => [name, listOptions(section)]));
  const toUrl = (path: string) => new URL(`../../${path}`, import.meta.url);
  const [pageUrl, schemaUrl, tableUrl, apiUrl, telemetryUrl, dashboardUrl] = [
    toUrl("docs/configuration-reference.md"),
    toUrl("docs/config.schema.json"),
    toUrl("test/unit/serve/wrong-values.md"),
    toUrl("docs/openapi.json"),
    toUrl("docs/telemetry.md"),
    toUrl("docs/grafana-dashboard.json"),
  ];
  const { version } = JSON.parse(await readFile(toUrl("package.json"), "utf8")) as { version: string };
  const readText = async (file: URL) => readFile(file, "utf8").catch(() => "");
  const versionedDocuments = [...new Set(VERSION_LOCATIONS.map(([path]) => path))].map(async (path) => {
    const text = await readText(toUrl(path));
    return { file: toUrl(path), currentText: text, expectedText: replaceVersion(path, text, version) };
  });
  return [
    {
      file: pageUrl,
      currentText: await readText(pageUrl),
      expectedText: await createConfigurationPage(await readText(pageUrl)),
    },
    {
      file: schemaUrl,
      currentText: await readText(schemaUrl),
      expectedText: await formatDocument(JSON.stringify(createConfigSchema()), "config.schema.json"),
    },
    {
      file: tableUrl,
      currentText: await readText(tableUrl),
      expectedText: await formatDocument(await createWrongValuesTable(leaves), "wrong-values.md"),
    },
    {
      file: apiUrl,
      currentText: await readText(apiUrl),
      expectedText: await formatDocument(JSON.stringify(createOpenApiDocument(version)), "openapi.json"),
    },
    {
      file: telemetryUrl,
      currentText: await readText(telemetryUrl),
      expectedText: await createTelemetryPage(await readText(telemetryUrl)),
    },
    {
      file: dashboardUrl,
      currentText: await readText(dashboardUrl),
      expectedText: await formatDocument(JSON.stringify(createDashboard()), "grafana-dashboard.json"),
    },
    ...(await Promise.all(versionedDocuments)),
  ];
}

if (process.argv.includes("--write"))
  for (const { file, currentText, expectedText } of await listDocuments()) {
    if (currentText === expectedText) continue;
    await writeFile(file, expectedText);
    console.log(`written: ${fileURLToPath(file)}`);
  }
