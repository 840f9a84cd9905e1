import { useSignal } from "@preact/signals";
import type { GitState } from "gantry/client";
import { useEffect } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";

/** Characters of a commit's hash that are shown. */
const HASH_CHARACTERS = 8;

/** A folder: of a session, another one, or by default the folder of the server. */
type FolderScope = { sessionId?: string; projectDir?: string };

/**
 * The Git state of a folder, as soon as it is known. Reads it again when the window gets the focus, and when `version`
 * changes; undefined reads nothing.
 */
export function useGitState({ sessionId, projectDir }: FolderScope, version: unknown): GitState | undefined {
  const store = useConsole();
  const state = useSignal<GitState | undefined>(undefined);
  useEffect(() => {
    if (version === undefined) return undefined;
    const controller = new AbortController();
    const scope = { ...(sessionId !== undefined && { sessionId }), ...(projectDir !== undefined && { projectDir }) };
    const load = () =>
      store.client.git(scope, { signal: controller.signal }).then(
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
  }, [sessionId, projectDir, version]);
  return state.value;
}

/**
 * The Git branch of the session's folder, and the number of changed files. Reads both again when a run ends. Renders
 * nothing outside of a repository.
 */
export function GitBranch({ session }: { session: WatchedSession }) {
  const isBusy = session.isBusy.value;
  const exists = session.info.value !== undefined;
  const state = useGitState({ sessionId: session.id }, exists ? isBusy : undefined);
  const { branch = null, commit = null, dirty = 0 } = state ?? {};
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
