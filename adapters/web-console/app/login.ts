import { DisconnectedError, GantryClient, UnauthorizedError } from "gantry/client";

const STORAGE_KEY = "gantry.headers";
const CODE_FRAGMENT_PATTERN = /^#code=([\w-]+)$/;
/** Error codes of the server for an invalid link. */
const BAD_LINK_CODE_PATTERN = /^(?:bad_link|too_many_attempts)$/;

/** A one-time link was already used or has expired. */
export class LinkError extends Error {}

/**
 * Returns the code of a one-time link in the URL fragment; undefined if the fragment has no code. Replaces the fragment
 * with `newFragment`, so that neither the history nor a bystander sees the code.
 */
export function takeCode(newFragment = ""): string | undefined {
  const [, code] = CODE_FRAGMENT_PATTERN.exec(location.hash) ?? [];
  if (code !== undefined) history.replaceState(null, "", location.pathname + newFragment);
  return code;
}

/**
 * Headers for each request: the headers of a link's code, or the stored headers. Empty if no headers are stored.
 * Rejects with `LinkError` for an invalid link, if the server does not accept the stored headers either. After any
 * other error the caller may try the code again.
 */
export async function logIn(code: string | undefined): Promise<Record<string, string>> {
  const storedHeaders = readStoredHeaders();
  if (code === undefined) return storedHeaders;
  const answer = await postLogin(code);
  if (answer.ok) {
    const headers = toHeaders(answer.body.headers);
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(headers));
    return headers;
  }
  if (!BAD_LINK_CODE_PATTERN.test(String(answer.body.code)))
    throw new Error(`The server could not check the link: ${JSON.stringify(answer.body.error ?? answer.status)}`);
  // The server may no longer require headers, or the stored headers come from an earlier use of this link.
  if (await isAccepted(storedHeaders)) return storedHeaders;
  throw new LinkError("This link was already used or has expired. Get a new one:");
}

/**
 * Requests the headers with the token that the server gives to pages of a user. Undefined if the server gives no token,
 * as to pages that a command of its agent opened.
 */
export async function fetchPersonHeaders(): Promise<Record<string, string> | undefined> {
  // If the server is unavailable, other requests report the error.
  const { ok, body } = await postLogin().catch(() => ({ ok: false, body: { headers: {} } }));
  const headers = ok ? toHeaders(body.headers) : {};
  return Object.keys(headers).length > 0 ? headers : undefined;
}

/** Stores the token of a user for the requests of this tab, after a reload. */
export function storeToken(token: string): void {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ Authorization: `Bearer ${token.trim()}` }));
}

/** Removes the stored headers if they are `headers`, because the server no longer accepts them. */
export function forgetHeaders(headers: Record<string, string>): void {
  if (sessionStorage.getItem(STORAGE_KEY) === JSON.stringify(headers)) sessionStorage.removeItem(STORAGE_KEY);
}

/** Redeems a code. Without a code, requests the token headers. Rejects with `DisconnectedError`. */
async function postLogin(code?: string): Promise<{ ok: boolean; status: number; body: Record<string, unknown> }> {
  let response: Response;
  try {
    response = await fetch("/console/login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
  } catch (error) {
    throw new DisconnectedError("no connection", { code: "disconnected", status: 0, cause: error });
  }
  const body: unknown = await response.json().catch(() => undefined);
  return { ok: response.ok, status: response.status, body: Object(body) as Record<string, unknown> };
}

/** Whether the server accepts these headers. Rejects if the request fails for another reason. */
async function isAccepted(headers: Record<string, string>): Promise<boolean> {
  try {
    await new GantryClient({ headers }).sessions.list({ size: 1 });
  } catch (error) {
    if (error instanceof UnauthorizedError) return false;
    throw error;
  }
  return true;
}

function readStoredHeaders(): Record<string, string> {
  try {
    return toHeaders(JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "{}"));
  } catch {
    return {};
  }
}

/** Keeps only the fields that are strings. */
function toHeaders(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Object(value) as Record<string, unknown>).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    ),
  );
}
