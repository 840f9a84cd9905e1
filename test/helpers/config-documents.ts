// `npm run docs` generates documents from the code. Option definitions give the tables of docs/configuration.md,
// docs/config.schema.json and test/unit/serve/wrong-values.md (the error for each wrong value). The shapes and paths of
// the HTTP API give docs/openapi.json. It also copies the version of package.json.
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
import webConsole from "gantry/adapters/web-console";
import { createOpenApiDocument } from "../../adapters/koa-http-api/openapi.js";
import { configOptions } from "../../src/serve/config-options.js";
import { loadFullSection } from "../../src/serve/config.js";
import { wrongValues } from "./wrong-values.js";

export const COMMAND = "npm run docs";

type Described = option.Option<unknown>;

const entriesOf = ({ schema }: { schema?: StandardSchema<never> | StandardSchema }) =>
  (schema as option.Section).entries;
const { session, permissions } = configOptions.entries;
const provider = entriesOf(aiSdk);
const rule = permissions.entries.rules.docs.item as unknown as option.Section;
const toolServer = configOptions.entries.mcp_servers.docs.item as unknown as option.Section;
const model = (provider["models"] as Described).docs.item as unknown as option.Section;

/** All sections of the config file, including those of adapters, by the name of their table. */
export const SECTIONS: Readonly<Record<string, option.Section>> = {
  ...(configOptions.entries as unknown as Record<string, option.Section>),
  server: await loadFullSection("server"),
  acp: await loadFullSection("acp"),
  session: option.section({ ...session.entries, ...entriesOf(sqlite) }),
  'session with `"driver": "postgres"`': option.section(entriesOf(postgres)),
  providers: option.section(provider),
  "providers[].models[]": model,
  "permissions.rules[]": rule,
  "mcp_servers.NAME": toolServer,
  'providers[] with `"provider": "offline"`': option.section(entriesOf(offline)),
};
for (const key of ["$schema", "mcp_servers", "hooks"]) delete (SECTIONS as Record<string, unknown>)[key];

/** The options of a section with their full keys. */
export function leavesOf({ entries }: option.Section, before = ""): [key: string, leaf: Described][] {
  return Object.entries(entries).flatMap(([name, entry]): [string, Described][] => {
    const leaf = entry as Described;
    return leaf.docs.entries ? leavesOf(leaf as option.Section, `${before}${name}.`) : [[before + name, leaf]];
  });
}

function table(section: option.Section): string {
  const cell = (text: string) => text.replaceAll("|", "\\|");
  const rows = leavesOf(section).map(([key, { docs }]) => {
    const value = JSON.stringify(docs.default);
    const standard = docs.required
      ? "required"
      : value === undefined
        ? ""
        : value.length > 40
          ? "a list"
          : `\`${value}\``;
    return `| \`${key}\` | ${cell(docs.type || "list")} | ${cell(standard)} | ${cell(docs.about)} |`;
  });
  return ["| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

const TABLE = /(<!-- options of (.+?) -->\n)[^]*?(\n<!-- end -->)/g;

/** The page with regenerated tables. */
export async function configurationPage(page: string): Promise<string> {
  const made = page.replace(TABLE, (_all, begin: string, name: string, end: string) => {
    const section = SECTIONS[name];
    if (!section) throw new Error(`docs/configuration-reference.md: there are no options of ${name}`);
    return `${begin}\n${table(section)}\n${end}`;
  });
  return pretty(made, "configuration-reference.md");
}

/** JSON Schema of a config. Constraints between options are included as far as JSON Schema can express them. */
export function configSchema(): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  for (const [name, entry] of Object.entries(configOptions.entries))
    properties[name] = schemaOf(SECTIONS[name] ?? entry);
  const drivers = { driver: { enum: ["sqlite", "json"] } };
  const { properties: stored } = schemaOf(option.section({ ...session.entries, ...entriesOf(json) }));
  properties["session"] = {
    ...schemaOf(session),
    if: { properties: drivers },
    then: { properties: stored, additionalProperties: false },
    else: {
      if: { properties: { driver: { const: "postgres" } } },
      then: schemaOf(option.section({ ...session.entries, ...entriesOf(postgres) })),
    },
  };
  const named = schemaOf(option.section(provider));
  properties["providers"] = {
    ...schemaOf(configOptions.entries.providers),
    items: {
      type: "object",
      if: { properties: { provider: { const: "offline" } }, required: ["provider"] },
      then: schemaOf(option.section(entriesOf(offline))),
      else: {
        if: { properties: { driver: { enum: WIRES } } },
        then: { ...named, anyOf: [{ required: ["provider"] }, { required: ["name", "base_url"] }] },
      },
    },
  };
  const transports = [koa, webConsole, acpHttp, acpStdio].map((descriptor) => ({
    if: { type: "object", properties: { transport: { const: descriptor.name } }, required: ["transport"] },
    then: schemaOf(option.section({ transport: option.text("Its name."), ...entriesOf(descriptor) })),
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
function schemaOf(entry: option.Entries[string]): JsonSchema & { properties?: Record<string, JsonSchema> } {
  const { docs } = entry as Partial<Described>;
  if (!docs) return { ...(entry as StandardSchema)["~standard"].jsonSchema?.input({ target: "draft-07" }) };
  const { about, json: plain, entries, open = false, item, isMap = false, orText, default: standard } = docs;
  const description = about.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  const noted = {
    ...(description === "" ? {} : { description }),
    ...(standard === undefined || entries ? {} : { default: standard }),
  };
  if (item) return { ...noted, ...plain, [isMap ? "additionalProperties" : "items"]: schemaOf(item) };
  if (!entries) {
    // An environment variable may supply an enumerated value.
    const narrow = plain["type"] === "string" && Object.keys(plain).length > 1;
    return narrow ? { ...noted, anyOf: [plain, { type: "string", pattern: "\\$\\{\\w+\\}" }] } : { ...noted, ...plain };
  }
  const required = Object.keys(entries).filter((key) => (entries[key] as Partial<Described>).docs?.required);
  const object = {
    ...noted,
    ...plain,
    properties: Object.fromEntries(Object.entries(entries).map(([key, child]) => [key, schemaOf(child)])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: open,
  };
  return orText ? { anyOf: [{ type: "string", minLength: 1 }, object] } : object;
}

/** Formats a text with the repository's settings. */
export async function pretty(text: string, name: string): Promise<string> {
  const filepath = fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
  return format(text, { ...(await resolveConfig(filepath)), filepath });
}

const VERSION = "\\d+\\.\\d+\\.\\d+(?:-[\\w.-]+?)?";
/** MatchOffsets of the version: file, and the patterns before and after it. */
const VERSIONED: readonly [path: string, before: string, behind: string][] = [
  ["docs/installing.md", "gantry-", "\\.tgz"],
  ["docs/http-api.md", '"status":"\\w+","version":"', '"'],
  ["docs/acp.md", '"agentInfo":{"name":"gantry","title":"Gantry","version":"', '"'],
  ["docs/acp-registry/agent.json", '^  "version": "', '"'],
  ["docs/acp-registry/agent.json", '"package": "[^"@]+@', '"'],
  ["package-lock.json", '"name": "gantry",\\n +"version": "', '"'],
];

/** The text of such a file with the given version. */
export function withVersion(path: string, text: string, version: string): string {
  return VERSIONED.filter(([file]) => file === path).reduce(
    (made, [, before, behind]) => made.replace(new RegExp(`(${before})${VERSION}(?=${behind})`, "gm"), `$1${version}`),
    text,
  );
}

/** All generated documents: their file, current text and expected text. */
export async function documents(): Promise<{ file: URL; is: string; should: string }[]> {
  const leaves = Object.fromEntries(Object.entries(SECTIONS).map(([name, section]) => [name, leavesOf(section)]));
  const at = (path: string) => new URL(`../../${path}`, import.meta.url);
  const [page, schema, table, api] = [
    at("docs/configuration-reference.md"),
    at("docs/config.schema.json"),
    at("test/unit/serve/wrong-values.md"),
    at("docs/openapi.json"),
  ];
  const { version } = JSON.parse(await readFile(at("package.json"), "utf8")) as { version: string };
  const is = async (file: URL) => readFile(file, "utf8").catch(() => "");
  const versioned = [...new Set(VERSIONED.map(([path]) => path))].map(async (path) => {
    const text = await is(at(path));
    return { file: at(path), is: text, should: withVersion(path, text, version) };
  });
  return [
    { file: page, is: await is(page), should: await configurationPage(await is(page)) },
    { file: schema, is: await is(schema), should: await pretty(JSON.stringify(configSchema()), "config.schema.json") },
    { file: table, is: await is(table), should: await pretty(await wrongValues(leaves), "wrong-values.md") },
    {
      file: api,
      is: await is(api),
      should: await pretty(JSON.stringify(createOpenApiDocument(version)), "openapi.json"),
    },
    ...(await Promise.all(versioned)),
  ];
}

if (process.argv.includes("--write"))
  for (const { file, is, should } of await documents()) {
    if (is === should) continue;
    await writeFile(file, should);
    console.log(`written: ${fileURLToPath(file)}`);
  }
