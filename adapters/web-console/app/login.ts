const KEPT = "gantry.headers";
const CODE = /^#code=([\w-]+)$/;

/** That a one-time link is used up or too old. */
export class LinkError extends Error {}

/**
 * The headers that each request carries: those that the one-time link of the address stands for, or the ones it stood for
 * before. None where the server asks for none. Throws `LinkError` for a link that does not hold any more.
 */
export async function logIn(): Promise<Record<string, string>> {
  const [, code] = CODE.exec(location.hash) ?? [];
  if (code === undefined) return keptHeaders();
  // Neither the history nor whoever looks over a shoulder needs it.
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/console/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (!response.ok) throw new LinkError("This link was used before, or is too old. Ask for another: gantry console");
  const headers = headersIn(((await response.json()) as { headers?: unknown }).headers);
  sessionStorage.setItem(KEPT, JSON.stringify(headers));
  return headers;
}

/** What was kept lets nobody in any more. */
export function forgetHeaders(): void {
  sessionStorage.removeItem(KEPT);
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
