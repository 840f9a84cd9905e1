import { useSignal } from "@preact/signals";
import type { ApiModel, NotReady, Ready } from "gantry/client";
import { useEffect } from "preact/hooks";
import { NotificationButton } from "./attention/notification-button.js";
import { notificationChoice } from "./attention/notification-choice.js";
import { ConnectModel } from "./connect-model.js";
import { hasLanguageModel } from "./language-models.js";
import { Icon } from "./parts/icon.js";
import { EDITOR_NAMES, labelEditor } from "./preview/editor-urls.js";
import { chooseEditor, editor } from "./preview/editor.js";
import { useConsole } from "./state/context.js";

/** Time between two requests for the state of a server that is not ready, in ms. */
const READINESS_RETRY_MS = 2_000;

/** Settings of this browser, and the state of the server. */
export function Settings() {
  const store = useConsole();
  return (
    <div class="settings">
      <div class="settings-column">
        <section aria-labelledby="settings-browser">
          <h2 id="settings-browser">This browser</h2>
          <div class="settings-row" role="group" aria-label="Theme">
            <span>Theme</span>
            {(["light", "dark"] as const).map((theme) => (
              <button
                key={theme}
                type="button"
                class="button"
                aria-pressed={store.theme.value === theme}
                onClick={() => (store.theme.value = theme)}
              >
                <Icon name={theme === "light" ? "sun" : "moon"} /> {theme === "light" ? "Light" : "Dark"}
              </button>
            ))}
          </div>
          <div class="settings-row">
            <span>Notifications</span>
            <NotificationButton />
            {notificationChoice.value === "unsupported" && (
              <span class="settings-note">They need https, or an address of this machine.</span>
            )}
          </div>
          <label class="settings-row">
            <span>Editor</span>
            <select
              class="picker"
              value={editor.value}
              onChange={({ currentTarget: { value } }) =>
                chooseEditor(EDITOR_NAMES.find((name) => name === value) ?? "")
              }
            >
              <option value="">None</option>
              {EDITOR_NAMES.map((name) => (
                <option key={name} value={name}>
                  {labelEditor(name)}
                </option>
              ))}
            </select>
            <span class="settings-note">Opens files on this machine.</span>
          </label>
        </section>
        <ServerState />
        <Models />
      </div>
    </div>
  );
}

function ServerState() {
  const store = useConsole();
  const state = useSignal<{ version: string; readiness: Ready | NotReady } | undefined>(undefined);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = () =>
      void Promise.all([store.client.health({ signal }), store.client.ready({ signal })]).then(
        ([{ version }, readiness]) => {
          if (signal.aborted) return;
          state.value = { version, readiness };
          // A server that has just started becomes ready when it knows its models.
          if (readiness.status !== "ready") timer = setTimeout(load, READINESS_RETRY_MS);
        },
        (error: unknown) => !signal.aborted && store.reportError(error),
      );
    load();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [store]);
  const { version, readiness } = state.value ?? {};
  return (
    <section aria-labelledby="settings-server">
      <h2 id="settings-server">The server</h2>
      <dl class="settings-facts">
        <dt>Version</dt>
        <dd>{version ?? "…"}</dd>
        <dt>State</dt>
        <dd>{readiness === undefined ? "…" : readiness.status === "ready" ? "accepts runs" : describe(readiness)}</dd>
        <dt>Tools</dt>
        <dd>
          <a href="#/mcp">MCP servers</a>
        </dd>
      </dl>
    </section>
  );
}

function describe({ reasons }: NotReady): string {
  return `accepts no runs: ${reasons.map(({ message }) => message).join("; ")}`;
}

function Models() {
  const store = useConsole();
  useEffect(() => void store.loadModels(), [store]);
  const models = store.models.value;
  return (
    <section aria-labelledby="settings-models">
      <h2 id="settings-models">Models</h2>
      {models === undefined ? (
        <p class="settings-note">Loading…</p>
      ) : (
        <>
          {!hasLanguageModel(models) && (
            <p class="settings-missing">
              <Icon name="warning" /> No language model is connected.
            </p>
          )}
          <dl class="settings-facts">
            {[...countByProvider(models)].map(([provider, count]) => (
              <>
                <dt>
                  <bdi>{provider}</bdi>
                </dt>
                <dd>{`${count} ${count === 1 ? "model" : "models"}`}</dd>
              </>
            ))}
          </dl>
          <h3 id="connect">Connect a model</h3>
          <ConnectModel models={models} />
        </>
      )}
    </section>
  );
}

function countByProvider(models: readonly ApiModel[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { provider } of models) counts.set(provider, (counts.get(provider) ?? 0) + 1);
  return counts;
}
