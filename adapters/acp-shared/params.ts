import { stat } from "node:fs/promises";
import path from "node:path";
import { isRecord } from "gantry/plugin";
import { invalidParams } from "./errors.js";

/** The params of a method, an object. Undefined and null become an empty one. */
export function readParams(params: unknown): Readonly<Record<string, unknown>> {
  if (params === undefined || params === null) return {};
  if (!isRecord(params)) throw invalidParams("params", "an object");
  return params;
}

export interface Initialize {
  clientName: string;
  /** Whether the client shows compactions. */
  compaction: boolean;
  readTextFile: boolean;
  writeTextFile: boolean;
  /** Whether the client offers files or terminals, as editors and bridges do, even without a name. */
  editor: boolean;
}

export function readInitialize(params: unknown): Initialize {
  const { protocolVersion, clientCapabilities, clientInfo } = readParams(params);
  if (!Number.isInteger(protocolVersion) || (protocolVersion as number) < 1) {
    throw invalidParams("protocolVersion", "an integer from 1");
  }
  const capabilities = optionalObject(clientCapabilities, "clientCapabilities");
  const info = optionalObject(clientInfo, "clientInfo");
  const name = info.name ?? "";
  if (typeof name !== "string") throw invalidParams("clientInfo.name", "a string");
  const session = isRecord(capabilities.session) ? capabilities.session : {};
  const fs = isRecord(capabilities.fs) ? capabilities.fs : {};
  return {
    clientName: name,
    compaction: isRecord(session.compaction),
    readTextFile: fs.readTextFile === true,
    writeTextFile: fs.writeTextFile === true,
    editor: holdsTrue(capabilities.fs) || holdsTrue(capabilities.terminal),
  };
}

export function readString(params: Readonly<Record<string, unknown>>, field: string): string {
  const value = params[field];
  if (typeof value !== "string" || value === "") throw invalidParams(field, "a string that is not empty");
  return value;
}

/** A string; undefined if the field is absent or null. */
export function optionalString(params: Readonly<Record<string, unknown>>, field: string): string | undefined {
  const value = params[field] ?? undefined;
  if (value !== undefined && typeof value !== "string") throw invalidParams(field, "a string");
  return value;
}

/** Absolute path of an existing folder, without a trailing slash. */
export async function readCwd(params: Readonly<Record<string, unknown>>): Promise<string> {
  const { cwd } = params;
  if (typeof cwd !== "string" || !path.isAbsolute(cwd)) throw invalidParams("cwd", "an absolute path");
  const stats = await stat(cwd).catch(() => undefined);
  if (!stats?.isDirectory()) throw invalidParams("cwd", "the absolute path of an existing folder");
  return path.resolve(cwd);
}

/** Whether the value contains `true` at any depth. The parser has already limited the depth. */
function holdsTrue(value: unknown): boolean {
  return value === true || (isRecord(value) && Object.values(value).some(holdsTrue));
}

function optionalObject(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {};
  if (!isRecord(value)) throw invalidParams(field, "an object");
  return value;
}
