import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ApiMcpServer } from "gantry/client";
import { escapeInvisible } from "./content/escape.js";
import { announce } from "./state/announce.js";
import { useConsole } from "./state/context.js";

/** Polling interval while the page is visible, in ms. A person may log in in another window. */
const POLL_INTERVAL_MS = 3_000;

const STATE_LABELS: Readonly<Record<ApiMcpServer["state"], string>> = {
  idle: "not in use",
  connected: "connected",
  needs_login: "needs a login",
  failed: "failed",
};
const DOT_CLASSES: Readonly<Record<ApiMcpServer["state"], string>> = {
  idle: "",
  connected: "busy",
  needs_login: "waiting",
  failed: "bad",
};

/** The MCP servers of the server's config, with a button to log in or out. */
export function McpServers() {
  const store = useConsole();
  const servers = useSignal<readonly ApiMcpServer[] | undefined>(undefined);
  const load = async () => {
    try {
      const newServers = await store.mcpServers.list();
      announceLogin(servers.peek(), newServers);
      servers.value = newServers;
    } catch (error) {
      // The session list, which is polled too, reports later errors.
      if (servers.peek() === undefined) store.reportError(error);
    }
  };
  useEffect(() => {
    const loadIfVisible = () => void (document.visibilityState === "visible" && load());
    const timer = setInterval(loadIfVisible, POLL_INTERVAL_MS);
    document.addEventListener("visibilitychange", loadIfVisible);
    loadIfVisible();
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", loadIfVisible);
    };
  }, [store]);
  const list = servers.value;
  return (
    <div class="mcp">
      <div class="mcp-column">
        {list === undefined || list.length === 0 ? (
          <p class="mcp-note" role="status">
            {list ? "The config of this server has no MCP servers (mcp_servers)." : "Loading…"}
          </p>
        ) : (
          <ul class="mcp-list" aria-label="MCP servers">
            {list.map((server) => (
              <ServerRow key={server.name} server={server} onChange={load} />
            ))}
          </ul>
        )}
        <p class="mcp-note">The next prompt of a session uses a new login. An active run does not.</p>
      </div>
    </div>
  );
}

function ServerRow({ server, onChange }: { server: ApiMcpServer; onChange: () => Promise<void> }) {
  const store = useConsole();
  const isBusy = useSignal(false);
  const { name, state, tools, login, reason, transport } = server;
  const facts = [
    transport === "stdio" ? "program" : "address",
    tools === null ? "" : `${tools} ${tools === 1 ? "tool" : "tools"}`,
    login === "stored" ? "logged in" : "",
  ].filter(Boolean);
  const act = async (work: () => Promise<void>) => {
    isBusy.value = true;
    try {
      await work();
    } catch (error) {
      store.reportError(error);
    }
    await onChange();
    isBusy.value = false;
  };
  const logIn = () => {
    // Browsers block windows that open after a wait.
    const loginWindow = open("about:blank", "_blank");
    void act(async () => {
      const url = await store.mcpServers.logIn(name, { serverUrl: location.origin }).catch((error: unknown) => {
        loginWindow?.close();
        throw error;
      });
      if (url !== null) (loginWindow ?? window).location.href = url;
      else {
        loginWindow?.close();
        store.notify(`${name} needs no login.`);
      }
    });
  };
  const canLogOut = login === "stored" && state !== "needs_login";
  const logOut = () => void act(async () => void (await store.mcpServers.logOut(name)));
  return (
    <li class="mcp-server">
      <span class={`dot ${DOT_CLASSES[state]}`} />
      <span class="mcp-text">
        <bdi class="mcp-name">{name}</bdi>
        <span class="mcp-facts">
          <strong>{STATE_LABELS[state]}</strong> {facts.join(" · ")}
        </span>
        {state === "failed" && <span class="mcp-reason">{escapeInvisible(reason)}</span>}
      </span>
      {login !== "none" && (
        <button
          type="button"
          class="button"
          disabled={isBusy.value}
          aria-label={`${canLogOut ? "Log out of" : "Log in to"} ${name}`}
          onClick={canLogOut ? logOut : logIn}
        >
          {canLogOut ? "Log out" : "Log in"}
        </button>
      )}
    </li>
  );
}

/** Announces logins since the last list to screen readers. */
function announceLogin(oldServers: readonly ApiMcpServer[] = [], newServers: readonly ApiMcpServer[]): void {
  for (const { name, login } of newServers)
    if (login === "stored" && oldServers.some((old) => old.name === name && old.login === "possible"))
      announce(`Logged in to ${name}.`);
}
