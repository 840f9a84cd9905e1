import { useSignal } from "@preact/signals";
import type { GitState } from "gantry/client";
import { useEffect } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";

/** Characters of a commit's hash that are shown. */
const HASH_CHARACTERS = 8;

/**
 * The Git branch of the session's folder, and the number of changed files. Reads both again when a run ends and when
 * the window gets the focus. Renders nothing outside of a repository.
 */
export function GitBranch({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const state = useSignal<GitState | undefined>(undefined);
  const isBusy = session.isBusy.value;
  const exists = session.info.value !== undefined;
  useEffect(() => {
    if (!exists) return undefined;
    const controller = new AbortController();
    const load = () =>
      store.client.git({ sessionId: session.id }, { signal: controller.signal }).then(
        (newState) => (state.value = newState),
        // The state is not important enough for an error message.
        () => undefined,
      );
    const reload = () => void load();
    reload();
    addEventListener("focus", reload);
    return () => {
      removeEventListener("focus", reload);
      controller.abort();
    };
  }, [session, isBusy, exists]);
  const { branch = null, commit = null, dirty = 0 } = state.value ?? {};
  const name = branch ?? commit?.slice(0, HASH_CHARACTERS);
  if (name === undefined) return null;
  const label = `${escapeInvisible(name)}${dirty === 0 ? "" : ` · ${dirty} changed`}`;
  return (
    <span class="head-git" title={branch === null ? "Detached commit" : "Git branch"}>
      <Icon name="fork" />
      <bdi class="clipped">{label}</bdi>
    </span>
  );
}
