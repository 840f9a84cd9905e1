import { ProviderError } from "gantry";
import { createDeadline } from "gantry/plugin";
import { BODY_LIMITS } from "./bodies.js";
import { toProviderError, type FaultContext } from "./errors.js";
import type { Read } from "./network.js";
import { asObject, parseJsonObject, type JsonObject } from "./json.js";
import { enrichLocalEntries } from "./local-catalogue.js";
import type { Settings } from "./options.js";
import { describeUnreadable } from "./provider-fault.js";

const LIST_TIMEOUT_MS = 30_000;
/** Models per page; the maximum of Anthropic and Google. */
const PAGE_SIZE = 1000;
const MAX_PAGES = 20;
/** Larger than any provider's list; further entries are ignored. */
const MAX_MODELS = 10_000;

/**
 * The entries of the provider's model list, or of the preset's list if the provider has no list. Rejects with
 * `ProviderError`, or with the signal's reason.
 */
export async function loadEntries(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<JsonObject[]> {
  const { preset } = settings;
  const presetEntries = (preset?.models ?? []).map((id) => ({ id }));
  if (preset?.hasModelList === false) return presetEntries;
  const deadline = createDeadline(LIST_TIMEOUT_MS, signal);
  try {
    const entries = await fetchEntries(settings, read, context, deadline.signal);
    return await enrichLocalEntries(entries, settings, read, deadline.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.hasExpired)
      throw new ProviderError(context.provider, "timeout", `no list of models within ${LIST_TIMEOUT_MS / 1000} s`);
    const fault = toProviderError(error, context);
    if (fault.kind === "not_found" && presetEntries.length > 0) return presetEntries;
    throw fault;
  } finally {
    deadline.clear();
  }
}

async function fetchEntries(
  settings: Settings,
  read: Read,
  context: FaultContext,
  signal: AbortSignal,
): Promise<JsonObject[]> {
  const { wire, baseUrl } = settings;
  const headers = { accept: "application/json", ...createProtocolHeaders(settings), ...settings.headers };
  const entries: JsonObject[] = [];
  let query = wire === "anthropic" ? `?limit=${PAGE_SIZE}` : wire === "google" ? `?pageSize=${PAGE_SIZE}` : "";
  let remainingBytes = BODY_LIMITS.listBytes;
  for (let page = 0; page < MAX_PAGES && entries.length < MAX_MODELS; page++) {
    const url = `${baseUrl}/models${query}`;
    const response = await read(url, { headers }, signal, remainingBytes, "a list of models");
    const { text } = response;
    remainingBytes -= response.bytes;
    const body = parseJsonObject(text);
    if (!response.ok) {
      throw toProviderError(
        { statusCode: response.status, responseBody: text, responseHeaders: response.headers },
        context,
      );
    }
    if (body === undefined)
      throw new ProviderError(context.provider, "protocol", context.redact(describeUnreadable(text)));
    const list = findList(body);
    if (list === undefined)
      throw new ProviderError(context.provider, "protocol", "the list of models has an unknown shape");
    for (const entry of list.slice(0, MAX_MODELS - entries.length)) entries.push(asObject(entry));
    const pageFields = asObject(body);
    if (wire === "google" && typeof pageFields.nextPageToken === "string" && pageFields.nextPageToken !== "") {
      query = `?pageSize=${PAGE_SIZE}&pageToken=${encodeURIComponent(pageFields.nextPageToken)}`;
    } else if (wire === "anthropic" && pageFields.has_more === true && typeof pageFields.last_id === "string") {
      query = `?limit=${PAGE_SIZE}&after_id=${encodeURIComponent(pageFields.last_id)}`;
    } else break;
  }
  return entries;
}

function createProtocolHeaders({ wire, apiKey, quirks }: Settings): Record<string, string> {
  const versionHeader: Record<string, string> = wire === "anthropic" ? { "anthropic-version": "2023-06-01" } : {};
  if (apiKey === undefined) return versionHeader;
  if (wire === "anthropic") return { ...versionHeader, "x-api-key": apiKey };
  if (wire === "google") return { "x-goog-api-key": apiKey };
  return quirks.keyHeader === undefined ? { authorization: `Bearer ${apiKey}` } : { [quirks.keyHeader]: apiKey };
}

function findList(body: unknown): unknown[] | undefined {
  const list = Array.isArray(body) ? (body as unknown[]) : (asObject(body).data ?? asObject(body).models);
  return Array.isArray(list) ? (list as unknown[]) : undefined;
}
