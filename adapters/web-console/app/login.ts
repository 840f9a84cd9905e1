import { DisconnectedError, GantryClient, UnauthorizedError } from "gantry/client";

const KEPT = "gantry.headers";
const CODE = /^#code=([\w-]+)$/;
/** What the server says of a link that does not hold: `error.code`. */
const BAD_LINK = /^(?:bad_link|too_many_attempts)$/;

/** That a one-time link is used up or too old. */
export class LinkError extends Error {}

/**
 * The code of a one-time link in the address, whose end becomes `end`: neither the history nor whoever looks over a shoulder
 * needs it. Undefined where it has none.
 */
export function takeCode(end = ""): string | undefined {
  const [, code] = CODE.exec(location.hash) ?? [];
  if (code !== undefined) history.replaceState(null, "", location.pathname + end);
  return code;
}

/**
 * The headers that each request carries: those that a link's code stands for, or the ones that are kept. None where the
 * server asks for none. Throws `LinkError` for a link that does not hold any more, where what is kept lets nobody in either;
 * after any other error the code may be tried again.
 */
export async function logIn(code: string | undefined): Promise<Record<string, string>> {
  const kept = keptHeaders();
  if (code === undefined) return kept;
  const answer = await use(code);
  if (answer.ok) {
    const headers = headersIn(answer.body.headers);
    sessionStorage.setItem(KEPT, JSON.stringify(headers));
    return headers;
  }
  if (!BAD_LINK.test(String(answer.body.code)))
    throw new Error(`The server did not look at the link: ${JSON.stringify(answer.body.error ?? answer.status)}`);
  // An old link of a server that asks for nothing any more, or one that this page was opened with before.
  if (await letIn(kept)) return kept;
  throw new LinkError("This link was used before, or is too old. Ask for another:");
}

/** The token of the server, which it gives to pages that no command of its agent opened; undefined if it gives none. */
export async function personHeaders(): Promise<Record<string, string> | undefined> {
  // Without the server, the page says so by itself.
  const { ok, body } = await use().catch(() => ({ ok: false, body: { headers: {} } }));
  const headers = ok ? headersIn(body.headers) : {};
  return Object.keys(headers).length > 0 ? headers : undefined;
}

/** These let nobody in any more. */
export function forgetHeaders(headers: Record<string, string>): void {
  if (sessionStorage.getItem(KEPT) === JSON.stringify(headers)) sessionStorage.removeItem(KEPT);
}

async function use(code?: string): Promise<{ ok: boolean; status: number; body: Record<string, unknown> }> {
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

async function letIn(headers: Record<string, string>): Promise<boolean> {
  try {
    await new GantryClient({ headers }).sessions.list({ size: 1 });
  } catch (error) {
    if (error instanceof UnauthorizedError) return false;
    throw error;
  }
  return true;
}

function keptHeaders(): Record<string, string> {
  try {
    return headersIn(JSON.parse(sessionStorage.getItem(KEPT) ?? "{}"));
  } catch {
    return {};
  }
}

function headersIn(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Object(value) as Record<string, unknown>).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    ),
  );
}
