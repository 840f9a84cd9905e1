import { signal, type ReadonlySignal } from "@preact/signals";

/** What the page shows. */
export type Route = { name: "new" } | { name: "session"; id: string } | { name: "runs" };

/** The route as the end of an address. */
export function hashOf(route: Route): string {
  if (route.name === "session") return `#/s/${encodeURIComponent(route.id)}`;
  return route.name === "runs" ? "#/runs" : "#/";
}

/** What an address asks for; a new session where it asks for nothing that is known. */
export function routeOf(hash: string): Route {
  if (hash === "#/runs") return { name: "runs" };
  const [, id] = /^#\/s\/([^/]+)$/.exec(hash) ?? [];
  try {
    const name = decodeURIComponent(id ?? "");
    // The dots would lead to another path of the API than that of a session.
    if (!/^\.{0,2}$/.test(name)) return { name: "session", id: name };
  } catch {
    // No letters that there are.
  }
  return { name: "new" };
}

/** The route of the page's address, and the way to another one. */
export function addressRoute(): { route: ReadonlySignal<Route>; go(route: Route): void } {
  const route = signal(routeOf(location.hash));
  addEventListener("hashchange", () => (route.value = routeOf(location.hash)));
  return {
    route,
    go(next) {
      if (hashOf(next) === location.hash) route.value = next;
      else location.hash = hashOf(next);
    },
  };
}
