import type { Mode } from "gantry/client";
import { MODES } from "./modes.js";
import { announce } from "./state/announce.js";
import type { Console } from "./state/console.js";

const MODE_NAMES = Object.keys(MODES) as Mode[];

/** Mode of the open session, or of a new session; `""` is the server's default. Undefined in other views. */
export function readMode(store: Console): Mode | "" | undefined {
  if (store.route.value.name === "new") return store.newSessionSettings.mode.value;
  return store.session.value?.info.value?.mode;
}

/** Sets the mode of the open session, or of a new session. */
export async function setMode(store: Console, mode: Mode): Promise<void> {
  if (store.route.peek().name === "new") store.newSessionSettings.mode.value = mode;
  else await store.session.peek()?.update({ mode });
  const [label, description] = MODES[mode];
  announce(`Mode ${label}: ${description}`);
}

/** Sets the mode that follows the current mode. */
export function switchMode(store: Console): void {
  const mode = readMode(store);
  if (mode === undefined) return;
  const nextMode = MODE_NAMES[(MODE_NAMES.indexOf(mode as Mode) + 1) % MODE_NAMES.length];
  if (nextMode) void setMode(store, nextMode);
}
