import type { FileReference } from "../preview/file-reference.js";
import { signal, type ReadonlySignal } from "@preact/signals";

const PAGE_NAMES = ["runs", "questions", "search", "mcp", "settings"] as const;

/**
 * The fragment of a session, with the seq of a message, with the path and line of a file, or with the name of another
 * view of the session.
 */
const SESSION_PATTERN = /^#\/s\/([^/]+)(?:\/(\d{1,15})|\/f\/([^/]+)(?:\/(\d{1,7}))?|\/(changes))?$/;

/** A view that shows no session, with the name of its URL fragment. */
export type PageName = (typeof PAGE_NAMES)[number];

/** A session. `seq`: the message to show; default the newest. `file`: the file whose preview is open. */
export interface SessionRoute {
  name: "session";
  id: string;
  seq?: number;
  file?: FileReference;
}

/** The view that the page shows. */
export type Route = { name: "new" } | SessionRoute | { name: "changes"; id: string } | { name: PageName };

/** The route as a URL fragment. */
export function toFragment(route: Route): string {
  if (route.name === "session") return toSessionFragment(route);
  if (route.name === "changes") return `#/s/${encodeURIComponent(route.id)}/changes`;
  return route.name === "new" ? "#/" : `#/${route.name}`;
}

function toSessionFragment({ id, seq, file }: SessionRoute): string {
  const fragment = `#/s/${encodeURIComponent(id)}`;
  if (file) return `${fragment}/f/${encodeURIComponent(file.path)}${file.line === undefined ? "" : `/${file.line}`}`;
  return seq === undefined ? fragment : `${fragment}/${seq}`;
}

/** The route of a URL fragment; the view of a new session if the fragment is unknown. */
export function toRoute(hash: string): Route {
  const pageName = PAGE_NAMES.find((name) => hash === `#/${name}`);
  if (pageName !== undefined) return { name: pageName };
  const [, id, seq, path, line, view] = SESSION_PATTERN.exec(hash) ?? [];
  try {
    const sessionId = decodeURIComponent(id ?? "");
    const file =
      path === undefined ? undefined : { path: decodeURIComponent(path), ...(line && { line: Number(line) }) };
    // An empty id, `.` or `..` would address another API path than a session's.
    if (/^\.{0,2}$/.test(sessionId)) return { name: "new" };
    if (view !== undefined) return { name: "changes", id: sessionId };
    return { name: "session", id: sessionId, ...(seq && { seq: Number(seq) }), ...(file && { file }) };
  } catch {
    // Invalid percent encoding.
  }
  return { name: "new" };
}

/** The route of the page's address, and a function that changes it. */
export function createRouter(): { route: ReadonlySignal<Route>; navigate(route: Route): void } {
  const route = signal(toRoute(location.hash));
  addEventListener("hashchange", () => (route.value = toRoute(location.hash)));
  return {
    route,
    navigate(nextRoute) {
      if (toFragment(nextRoute) === location.hash) route.value = nextRoute;
      else location.hash = toFragment(nextRoute);
    },
  };
}
