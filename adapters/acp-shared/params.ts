import { stat } from "node:fs/promises";
import path from "node:path";
import { isRecord } from "gantry/plugin";
import { toParamsError } from "./errors.js";

/** The params of a method. Undefined and null become an empty object. Throws `RpcError` for other values. */
export function readParams(params: unknown): Readonly<Record<string, unknown>> {
  if (params === undefined || params === null) return {};
  if (!isRecord(params)) throw toParamsError("params", "an object");
  return params;
}

export interface InitializeData {
  /** `""` if the client sends no name. */
  clientName: string;
  /** Whether the client supports `compaction_update`. */
  supportsCompactionUpdates: boolean;
  /** Whether the client shows notices (update `notice`). */
  supportsNotices: boolean;
  /** Whether the client shows forms (`elicitation/create`), in which users can enter text. */
  supportsForms: boolean;
  /** Whether the client shows terminals that the agent runs (`_meta.terminal_output`). */
  showsTerminals: boolean;
  /** Whether the client reads and writes files for the agent. */
  readTextFile: boolean;
  writeTextFile: boolean;
  /** Whether the client offers files or terminals, as editors and bridges do, even without a name. */
  isEditor: boolean;
}

/** Reads the params of `initialize`. Throws `RpcError` for invalid values. */
export function readInitialize(params: unknown): InitializeData {
  const { protocolVersion, clientCapabilities, clientInfo } = readParams(params);
  if (!Number.isInteger(protocolVersion) || (protocolVersion as number) < 1) {
    throw toParamsError("protocolVersion", "an integer from 1");
  }
  const capabilities = readOptionalObject(clientCapabilities, "clientCapabilities");
  const info = readOptionalObject(clientInfo, "clientInfo");
  const name = info.name ?? "";
  if (typeof name !== "string") throw toParamsError("clientInfo.name", "a string");
  const session = isRecord(capabilities.session) ? capabilities.session : {};
  const fs = isRecord(capabilities.fs) ? capabilities.fs : {};
  return {
    clientName: name,
    supportsCompactionUpdates: isRecord(session.compaction),
    supportsNotices: isRecord(session.notices),
    supportsForms: isRecord(capabilities.elicitation) && isRecord(capabilities.elicitation.form),
    showsTerminals: isRecord(capabilities._meta) && capabilities._meta.terminal_output === true,
    readTextFile: fs.readTextFile === true,
    writeTextFile: fs.writeTextFile === true,
    isEditor: containsTrue(capabilities.fs) || containsTrue(capabilities.terminal),
  };
}

/** A string that is not empty. Throws `RpcError` for other values. */
export function readString(params: Readonly<Record<string, unknown>>, field: string): string {
  const value = params[field];
  if (typeof value !== "string" || value === "") throw toParamsError(field, "a string that is not empty");
  return value;
}

/** A string; undefined if the field is absent or null. Throws `RpcError` for other values. */
export function readOptionalString(params: Readonly<Record<string, unknown>>, field: string): string | undefined {
  const value = params[field] ?? undefined;
  if (value !== undefined && typeof value !== "string") throw toParamsError(field, "a string");
  return value;
}

/**
 * The folder in `cwd` as an absolute path without a trailing slash. Rejects with `RpcError` if no such folder exists.
 */
export async function readCwd(params: Readonly<Record<string, unknown>>): Promise<string> {
  const { cwd } = params;
  if (typeof cwd !== "string" || !path.isAbsolute(cwd)) throw toParamsError("cwd", "an absolute path");
  const stats = await stat(cwd).catch(() => undefined);
  if (!stats?.isDirectory()) throw toParamsError("cwd", "the absolute path of an existing folder");
  return path.resolve(cwd);
}

/** Whether the value contains `true` at any depth. The parser has already limited the depth. */
function containsTrue(value: unknown): boolean {
  return value === true || (isRecord(value) && Object.values(value).some(containsTrue));
}

function readOptionalObject(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {};
  if (!isRecord(value)) throw toParamsError(field, "an object");
  return value;
}
