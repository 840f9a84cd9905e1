import { readFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import * as v from "valibot";
import { expand, gatherSecrets } from "./config-values.js";
import { ConfigError } from "../ports/errors.js";
import { headerFaultIn } from "../http/header-map.js";
import { isRecord } from "../base/json.js";
import { Redactor } from "../base/redact.js";

/** An environment variable; this file is the only reader of the environment. */
export function environment(name: string): string | undefined {
  return process.env[name];
}

/** gantry's home folder: `GANTRY_HOME`, else `~/.gantry`. */
export function homeFolder(): string {
  const set = environment("GANTRY_HOME");
  return set === undefined || set === "" ? join(homedir(), ".gantry") : resolve(set);
}

/** Names that child processes of tools get from the environment, beside those configured under `tools.env`. */
const CHILD_VARIABLES = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/** The environment of tools' child processes: an allow-list, so that no key of this process reaches them. */
export function childEnvironment(extra: readonly string[]): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && (CHILD_VARIABLES.includes(name) || name.startsWith("LC_") || extra.includes(name))) {
      result[name] = value;
    }
  }
  return result;
}

/** Folder for temporary files. */
export const temporaryFolder = tmpdir;

const text = v.string("a string");
const flag = v.boolean("true or false");
const texts = v.array(text, "a list of strings");
const whole = (min: number, max = Number.MAX_SAFE_INTEGER) => {
  const message =
    max === Number.MAX_SAFE_INTEGER ? `a whole number, at least ${min}` : `a whole number from ${min} to ${max}`;
  return v.pipe(v.number(message), v.integer(message), v.minValue(min, message), v.maxValue(max, message));
};
const positive = v.pipe(v.number("a number above 0"), v.gtValue(0, "a number above 0"));
const oneOf = <const T extends readonly string[]>(options: T) =>
  v.picklist(options, `one of ${options.map((option) => JSON.stringify(option)).join(", ")}`);
// Valibot takes a list for an object without keys.
const object = (message: string) => v.custom<Record<string, unknown>>(isRecord, message);
/** By hand: of an object's keys valibot leaves out `__proto__` and its like, and a header that is not there asks for nothing. */
const headers = (sent: boolean) =>
  v.pipe(
    object("an object of header names and values"),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const input = dataset.value;
      const fault = headerFaultIn(input, sent);
      if (fault === undefined) return input as Record<string, string>;
      // Not the value, which may be a secret.
      const key = fault.key.slice(1);
      const received = key.startsWith('"') ? key : typeof input[key];
      addIssue({
        message: fault.expected,
        received,
        path: [{ type: "object", origin: "value", input, key, value: "" }],
      });
      return NEVER;
    }),
  );
const section = <const T extends v.ObjectEntries>(entries: T) => {
  const message = `an object with the keys ${Object.keys(entries).join(", ")}`;
  // Every key is optional, so that nothing at all is a good section.
  return v.optional(v.pipe(object(message), v.strictObject(entries, message)), {} as never);
};
const module = (kind: "transport" | "tool") =>
  v.union(
    [text, v.looseObject({ [kind]: text } as Record<typeof kind, typeof text>)],
    `a ${kind}'s name, or an object with the key "${kind}" and its options`,
  );

const schema = v.pipe(
  object("an object"),
  v.strictObject(
    {
      server: section({
        host: v.optional(text, "127.0.0.1"),
        port: v.optional(whole(0, 65535), 8080),
        required_headers: v.optional(headers(false), {}),
        headers: v.optional(headers(true), {}),
        transports: v.optional(v.pipe(v.array(module("transport"), "a list"), v.nonEmpty("at least one transport")), [
          "koa-http-api",
        ]),
        max_body_bytes: v.optional(whole(1), 10_485_760),
        on_disconnect: v.optional(oneOf(["cancel", "continue"]), "cancel"),
        allow_cross_site: v.optional(flag, false),
        allow_loopback_pages: v.optional(flag, true),
        allow_other_users: v.optional(flag, false),
        allowed_hosts: v.optional(texts, []),
        insecure: v.optional(flag, false),
      }),
      acp: section({
        profile: v.optional(oneOf(["auto", "spec", "official"]), "auto"),
        // Left out: the transports' own list.
        official_clients: v.optional(texts),
        auth_methods: v.optional(v.array(v.looseObject({}, "an object"), "a list of objects"), []),
        request_permission: v.optional(flag, false),
        // Left out it is not the same as empty: see `Selection.transports`.
        required_headers: v.optional(headers(false)),
        allowed_origins: v.optional(texts, []),
        websocket_updates: v.optional(flag, true),
      }),
      // Other keys of these two belong to the adapter, which checks them.
      session: v.optional(v.looseObject({ driver: v.optional(text, "sqlite") }, "an object"), {}),
      providers: v.optional(v.array(v.looseObject({}, "an object"), "a list of providers"), []),
      model: section({
        provider: v.optional(text, ""),
        model: v.optional(text, ""),
        reasoning_effort: v.optional(oneOf(["", "minimal", "low", "medium", "high"]), ""),
      }),
      catalogue: section({
        refresh: v.optional(
          v.pipe(
            v.number("seconds, 0 or more"),
            v.minValue(0, "seconds, 0 or more"),
            v.maxValue(86_400, "seconds, at most 86400"),
          ),
          300,
        ),
      }),
      agent: section({
        max_iterations: v.optional(whole(1), 100),
        system_prompt: v.optional(text, ""),
        project_instructions: v.optional(flag, true),
        tools: v.optional(v.array(module("tool"), "a list"), ["*"]),
      }),
      compaction: section({
        enabled: v.optional(flag, true),
        strategy: v.optional(text, "sliding-window"),
        threshold: v.optional(
          v.pipe(
            v.number("a number above 0, at most 1"),
            v.gtValue(0, "a number above 0, at most 1"),
            v.maxValue(1, "a number above 0, at most 1"),
          ),
          0.8,
        ),
        keep_messages: v.optional(whole(1), 20),
        context_window: v.optional(whole(0), 0),
      }),
      tools: section({
        allow_paths: v.optional(texts, []),
        protected_paths: v.optional(texts, ["*"]),
        env: v.optional(texts, []),
        bash: section({
          enabled: v.optional(flag, true),
          timeout: v.optional(positive, 40),
          sandbox: v.optional(oneOf(["auto", "required", "off"]), "auto"),
          network: v.optional(flag),
        }),
        webfetch: section({ allow_private: v.optional(flag, false) }),
      }),
      limits: section({
        concurrent_runs: v.optional(whole(1), 512),
        streams: v.optional(whole(1), 1024),
        connections: v.optional(whole(1), 4096),
        attached_bytes: v.optional(whole(1), 268_435_456),
        json_depth: v.optional(whole(8, 10_000), 64),
        frame_bytes: v.optional(whole(1024), 67_108_864),
        tool_output_bytes: v.optional(whole(1024), 1_048_576),
        header_timeout: v.optional(positive, 15),
        request_timeout: v.optional(positive, 30),
        keep_alive_timeout: v.optional(positive, 120),
      }),
      log: section({ level: v.optional(oneOf(["debug", "info", "warn", "error"]), "info") }),
    },
    "an object",
  ),
);

/** The checked configuration, defaults filled in. Key names are those of the file. */
export type Config = v.InferOutput<typeof schema>;

export interface LoadedConfig {
  config: Config;
  /** The file, or where it would be; the start of error messages about it. */
  file: string;
  /** Folder that relative paths in the config start from. */
  folder: string;
  /** Values that stand under a key that holds secrets, came from such a variable, or look like a key; never to be logged. */
  secrets: ReadonlySet<string>;
  /** Takes out of a message about the config what came from the environment, secrets and all, because it may stand in the wrong place. */
  hide(message: string): string;
}

/** Values that flags put over the file's: keys as in the file, `server.port`. */
export type Overrides = Readonly<Record<string, unknown>>;

/**
 * Read the config file (`path`, else `<home>/config.json`; a missing default file means defaults), put the flags over
 * it and check it. Rejects with `ConfigError`: one line that names file, key path and what was expected.
 */
export async function loadConfig(options: {
  path?: string;
  home: string;
  overrides?: Overrides;
}): Promise<LoadedConfig> {
  const file = options.path === undefined ? join(options.home, "config.json") : resolve(options.path);
  const secrets = new Set<string>();
  const expanded = new Set<string>();
  const redactor = new Redactor(() => [...secrets, ...expanded]);
  const hide = (message: string) => redactor.redact(message);
  const raw = await read(file, options.path !== undefined);
  const value = expand(raw, { file, secrets, expanded, environment });
  gatherSecrets(value, secrets);
  try {
    // As it stands, too: a flag must not hide that the file is wrong.
    const own = check(file, value);
    const overrides = Object.entries(options.overrides ?? {}).filter(([, flagged]) => flagged !== undefined);
    const config =
      overrides.length === 0 ? own : check(file, override(value ?? {}, Object.fromEntries(overrides) as Overrides));
    return { config, file, folder: dirname(file), secrets, hide };
  } catch (error) {
    if (error instanceof ConfigError) error.message = hide(error.message);
    throw error;
  }
}

async function read(file: string, mustExist: boolean): Promise<unknown> {
  let content: string;
  try {
    content = await readFile(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && !mustExist) return {};
    throw new ConfigError(`${file}: cannot be read (${code ?? "unknown"})`, { cause: error });
  }
  content = content.replace(/^\uFEFF/, "");
  if (content.trim() === "") return {};
  try {
    return JSON.parse(content) as unknown;
  } catch {
    // Only a file with comments or trailing commas needs the larger parser.
    const { parse, printParseErrorCode } = await import("jsonc-parser");
    const errors: { error: number; offset: number; length: number }[] = [];
    const value: unknown = parse(content, errors, { allowTrailingComma: true, disallowComments: false });
    const first = errors[0];
    if (first === undefined) return value;
    const before = content.slice(0, first.offset).split("\n");
    const at = `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
    throw new ConfigError(
      `${file}:${at}: expected JSON (comments and trailing commas allowed): ${printParseErrorCode(first.error)}`,
    );
  }
}

function override(value: unknown, overrides: Overrides): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const result = { ...value } as Record<string, unknown>;
  for (const [path, flagged] of Object.entries(overrides)) {
    if (flagged === undefined) continue;
    const [head = "", key = ""] = path.split(".");
    const inner = result[head] ?? {};
    if (typeof inner === "object" && !Array.isArray(inner)) result[head] = { ...inner, [key]: flagged };
  }
  return result;
}

function check(file: string, value: unknown): Config {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = (issue.path ?? []).reduce(
    (before, { key }) =>
      typeof key === "number" ? `${before}[${key}]` : before === "" ? String(key) : `${before}.${String(key)}`,
    "",
  );
  if (issue.type === "strict_object" && issue.expected === "never") {
    const known = issue.message.replace(/^an object with the keys /, "");
    const possible = known === issue.message ? Object.keys(schema.pipe[1].entries).join(", ") : known;
    throw new ConfigError(`${file}: ${path}: unknown key; expected one of ${possible}`);
  }
  throw new ConfigError(
    `${file}: ${path === "" ? "the file" : path}: expected ${issue.message}, got ${issue.received}`,
  );
}
