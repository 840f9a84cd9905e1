import { ConfigError, isRecord } from "gantry";
import type { ProfileChoice } from "./wire.js";

/** How to log in, as `initialize` lists it. */
export interface AuthMethod {
  id: string;
  name: string;
  description?: string;
  [key: string]: unknown;
}

/** What both ACP transports are told. */
export interface AcpOptions {
  profile: ProfileChoice;
  /** Names of clients (`clientInfo.name`) that `auto` takes for official ones; a `*` at the end stands for anything. */
  officialClients: readonly string[];
  authMethods: readonly AuthMethod[];
  /** Whether tools that need leave ask the person at the client. */
  requestPermission: boolean;
  /** Bytes of one message. */
  frameBytes: number;
  /** Levels of arrays and objects in one message. */
  jsonDepth: number;
}

/** What an embedder gets without saying anything. */
export const ACP_DEFAULTS: AcpOptions = {
  profile: "auto",
  officialClients: [
    "zed",
    "agent-shell",
    "CodeCompanion.nvim",
    "acpx",
    "JetBrains.*",
    "Agentic.nvim",
    "obsidian-agent-client",
    "toad",
    "vscode-acp-client",
  ],
  authMethods: [],
  requestPermission: false,
  frameBytes: 64 * 1024 * 1024,
  jsonDepth: 64,
};

/** Reads raw options key by key; whatever is wrong throws a `ConfigError` that says where. */
export class OptionReader {
  readonly #raw: Readonly<Record<string, unknown>>;
  readonly #where: string;

  constructor(raw: Readonly<Record<string, unknown>>, where: string, known: readonly string[]) {
    this.#raw = raw;
    this.#where = where;
    const unknown = Object.keys(raw).find((key) => !known.includes(key));
    if (unknown !== undefined) throw this.#error(unknown, "no such key");
  }

  boolean(key: string, fallback: boolean): boolean {
    return this.#read(key, fallback, "true or false", (value) => typeof value === "boolean");
  }

  string(key: string, fallback: string): string {
    return this.#read(key, fallback, "a string", (value) => typeof value === "string");
  }

  integer(key: string, fallback: number, least: number): number {
    return this.#read(
      key,
      fallback,
      `an integer from ${least}`,
      (value) => Number.isSafeInteger(value) && (value as number) >= least,
    );
  }

  strings(key: string): string[] | undefined {
    return this.#read<string[] | undefined>(
      key,
      undefined,
      "an array of strings",
      (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
    );
  }

  stringMap(key: string): Record<string, string> {
    return this.#read(
      key,
      {},
      "an object of strings",
      (value) => isRecord(value) && Object.values(value).every((one) => typeof one === "string"),
    );
  }

  section(key: string, known: readonly string[]): OptionReader {
    const raw = this.#read(key, {}, "an object", isRecord);
    return new OptionReader(raw, `${this.#where}${this.#where === "" ? "" : "."}${key}`, known);
  }

  oneOf<T extends string>(key: string, choices: readonly T[], fallback: T): T {
    return this.#read(key, fallback, choices.join(" or "), (value) => choices.includes(value as T));
  }

  authMethods(key: string): AuthMethod[] {
    return this.#read(
      key,
      [],
      "an array of objects with id and name",
      (value) => Array.isArray(value) && value.every(isAuthMethod),
    );
  }

  #read<T>(key: string, fallback: T, expected: string, fits: (value: unknown) => boolean): T {
    const value = Object.hasOwn(this.#raw, key) ? this.#raw[key] : undefined;
    if (value === undefined) return fallback;
    if (!fits(value)) throw this.#error(key, `expected ${expected}`);
    return value as T;
  }

  #error(key: string, why: string): ConfigError {
    return new ConfigError(`${this.#where}${this.#where === "" ? "" : "."}${key}: ${why}`);
  }
}

function isAuthMethod(value: unknown): value is AuthMethod {
  return isRecord(value) && typeof value.id === "string" && value.id !== "" && typeof value.name === "string";
}

/** Keys that both transports take. */
export const SHARED_KEYS = ["profile", "official_clients", "auth_methods", "request_permission", "limits"] as const;

/** The part of the raw options that both transports share; `limits` may hold more keys for the one that reads them. */
export function readAcpOptions(reader: OptionReader, limits: OptionReader): AcpOptions {
  return {
    profile: reader.oneOf("profile", ["auto", "spec", "official"], ACP_DEFAULTS.profile),
    officialClients: reader.strings("official_clients") ?? ACP_DEFAULTS.officialClients,
    authMethods: reader.authMethods("auth_methods"),
    requestPermission: reader.boolean("request_permission", ACP_DEFAULTS.requestPermission),
    frameBytes: limits.integer("frame_bytes", ACP_DEFAULTS.frameBytes, 1024),
    jsonDepth: limits.integer("json_depth", ACP_DEFAULTS.jsonDepth, 8),
  };
}
