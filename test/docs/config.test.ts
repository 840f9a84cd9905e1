import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { DOCS_COMMAND, createConfigSchema, listDocuments, replaceVersion } from "../helpers/config-documents.js";
import { readConfigError } from "../helpers/wrong-values.js";

describe("the documents that are generated from the config options", () => {
  it("are up to date", async () => {
    for (const { file, currentText, expectedText } of await listDocuments())
      assert.equal(
        currentText,
        expectedText,
        `${file.pathname} differs from the options; generate it: ${DOCS_COMMAND}`,
      );
  });

  it("describe each option, and list no wrong value as accepted", async () => {
    const [page, , table] = await listDocuments();
    assert.doesNotMatch(page?.expectedText ?? "", /^\|.*\| +\|$/m, "each option has a description");
    assert.doesNotMatch(table?.expectedText ?? "", /\*\*accepted\*\*/);
    assert.ok((table?.expectedText.match(/^\| `/gm) ?? []).length > 100);
  });

  it("include each file that contains the version, and replace all occurrences of the version", async () => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    const nextVersion = "12.34.56-next.7";
    const oldVersionPattern = new RegExp(`(?<![\\d.])${version.replaceAll(".", "\\.")}(?![\\d.](?!tgz))`);
    const pages = ["docs", "examples"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
    );
    const changedFiles: string[] = [];
    for (const file of [...pages, "README.md", "package-lock.json"]) {
      // openapi.json is generated as a whole and checked elsewhere.
      if (!/\.(?:md|json|ya?ml|[cm]?[jt]s|html)$|file$/.test(file) || file.endsWith("openapi.json")) continue;
      const name = file.split(sep).join("/");
      const text = readFileSync(join(root, file), "utf8");
      const updatedText = replaceVersion(name, text, nextVersion);
      // In the lock file only the first 300 characters are checked, because other packages may have the same version.
      const comparedCharacters = name === "package-lock.json" ? 300 : Infinity;
      assert.doesNotMatch(updatedText.slice(0, comparedCharacters), oldVersionPattern, name);
      assert.equal(replaceVersion(name, updatedText, version), text);
      if (updatedText !== text) changedFiles.push(name);
    }
    for (const name of ["docs/installing.md", "docs/acp-registry/agent.json", "package-lock.json"])
      assert.ok(changedFiles.includes(name), name);
    const generatedFiles = (await listDocuments()).map(({ file }) => file.pathname);
    for (const name of changedFiles)
      assert.ok(
        generatedFiles.some((file) => file.endsWith(`/${name}`)),
        name,
      );
  });
});

const labProvider = { name: "lab", base_url: "http://127.0.0.1:9000/v1" };
const createTransportConfig = (entry: unknown) => ({ server: { transports: [entry] } });

const VALID_CONFIGS: readonly unknown[] = [
  {},
  { $schema: "./node_modules/gantry/docs/config.schema.json" },
  { server: { port: 0, host: "::1", headers: { "X-A": "1" }, on_disconnect: "continue", required_headers: {} } },
  { server: { transports: ["koa-http-api", { transport: "acp-http-sse-ws", required_headers: { "X-Key": "k" } }] } },
  createTransportConfig({ transport: "koa-http-api", max_body_bytes: 5, limits: { json_depth: 8 } }),
  createTransportConfig({ transport: "acp-stdio", profile: "spec" }),
  { acp: { profile: "official", official_clients: ["x*"], auth_methods: [{ id: "a", name: "A", more: 1 }] } },
  { session: { driver: "json", path: "s", durability: "normal" } },
  { session: { path: "" } },
  { providers: [] },
  { providers: [{ ...labProvider, models: ["a", { id: "b", cost: { input: 0, output: 1.5 }, input: ["text"] }] }] },
  { providers: [{ provider: "ollama" }, { provider: "offline", hints: ["x"], detect: false }] },
  {
    providers: [
      { ...labProvider, driver: "anthropic", timeout: 0.5, max_retries: 0, max_wait: 0, headers: { A: "b" } },
    ],
  },
  { model: { reasoning_effort: "" }, catalogue: { refresh: 0 }, compaction: { threshold: 1, context_window: 0 } },
  { agent: { tools: ["*", { tool: "./x.js", any: 1 }], max_iterations: 1 } },
  { tools: { bash: { timeout: 0.5, network: true }, webfetch: {}, allow_paths: ["/tmp"] } },
  { limits: { json_depth: 10_000, header_timeout: 0.1 }, log: { level: "debug" } },
  { log: { level: "${GANTRY_TEST_LEVEL}" } },
];

const INVALID_CONFIGS: readonly unknown[] = [
  [],
  5,
  { nonsense: 1 },
  { $schema: 5 },
  { server: null },
  { server: { port: 65_536 } },
  { server: { port: "80" } },
  { server: { transports: [] } },
  { server: { headers: { "X-A": 1 } } },
  { server: { profile: "auto" } },
  createTransportConfig(5),
  createTransportConfig({ port: 1 }),
  createTransportConfig({ transport: "koa-http-api", port: 1 }),
  createTransportConfig({ transport: "koa-http-api", denied_paths: [] }),
  createTransportConfig({ transport: "acp-stdio", required_headers: {} }),
  createTransportConfig({ transport: "acp-http-sse-ws", limits: { streams: 0 } }),
  { acp: { profile: "both" } },
  { acp: { max_body_bytes: 5 } },
  { acp: { auth_methods: [{ id: "a" }] } },
  { session: { driver: 5 } },
  { session: { durabilty: "full" } },
  { session: { driver: "json", durability: "some" } },
  { providers: {} },
  { providers: ["openai"] },
  { providers: [{}] },
  { providers: [{ name: "lab" }] },
  { providers: [{ ...labProvider, name: "a/b" }] },
  { providers: [{ ...labProvider, apiKey: "x" }] },
  { providers: [{ ...labProvider, timeout: 0 }] },
  { providers: [{ ...labProvider, models: [{ name: "x" }] }] },
  { providers: [{ ...labProvider, models: [""] }] },
  { providers: [{ ...labProvider, models: [{ id: "a", cost: { input: 1 } }] }] },
  { providers: [{ provider: "offline", detect: "no" }] },
  { model: { reasoning_effort: "most" } },
  { catalogue: { refresh: 86_401 } },
  { compaction: { threshold: 0 } },
  { agent: { tools: [{ name: "read" }] } },
  { tools: { bash: { sandbox: "never" } } },
  { limits: { json_depth: 7 } },
];

describe("config.schema.json", () => {
  const validate = new Ajv({ strict: true, strictTypes: false, strictRequired: false }).compile(createConfigSchema());

  it("accepts configs that the config reader accepts", async (t) => {
    process.env["GANTRY_TEST_LEVEL"] = "warn";
    t.after(() => delete process.env["GANTRY_TEST_LEVEL"]);
    for (const config of VALID_CONFIGS) {
      assert.equal(await readConfigError(config), undefined, JSON.stringify(config));
      assert.ok(validate(config), `${JSON.stringify(config)}: ${JSON.stringify(validate.errors)}`);
    }
  });

  it("rejects configs that the config reader rejects", async () => {
    for (const config of INVALID_CONFIGS) {
      assert.match((await readConfigError(config)) ?? "accepted", /^config\.json: /, JSON.stringify(config));
      assert.ok(!validate(config), JSON.stringify(config));
    }
  });
});
