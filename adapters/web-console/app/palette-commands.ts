import type { ApiModel, ApiSession } from "gantry/client";
import { listConversationCommands } from "./conversation/conversation-commands.js";
import { readMode, setMode } from "./mode-switch.js";
import { MODES } from "./modes.js";
import type { PaletteCommand } from "./palette-command.js";
import { rewindTask } from "./rewind/rewind-task.js";
import type { Console } from "./state/console.js";
import type { Route } from "./state/router.js";
import type { WatchedSession } from "./state/watched-session.js";

const VIEWS: readonly (readonly [name: Exclude<Route["name"], "session" | "changes">, label: string, note: string])[] =
  [
    ["new", "New session", "n"],
    ["questions", "Questions", "g q"],
    ["runs", "Runs", "g r"],
    ["search", "Search messages", "g m"],
    ["mcp", "MCP servers", "view"],
    ["settings", "Settings", "g s"],
  ];
/** Maximum number of models in the list; more words of the search find the others. */
const MAX_MODELS = 20;

/** Commands of the current view that contain all words of the search. Models appear only in a search. */
export function findCommands(store: Console, search: string): PaletteCommand[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = ({ label }: PaletteCommand) => words.every((word) => label.toLowerCase().includes(word));
  const models = words.length === 0 ? [] : listModelCommands(store).filter(matches).slice(0, MAX_MODELS);
  return [
    ...[...listSessionCommands(store), ...listViewCommands(store), ...listModeCommands(store)].filter(matches),
    ...models,
  ];
}

/** The command that searches the messages of all sessions. */
export function toSearchCommand(store: Console, search: string): PaletteCommand {
  const run = () => {
    store.messageSearchText.value = search.trim();
    store.navigate({ name: "search" });
  };
  return { id: "search-messages", label: `Search messages for “${search.trim()}”`, note: "search", run };
}

/** The command that opens a session. */
export function toSessionCommand(store: Console, { id, title }: ApiSession): PaletteCommand {
  const run = () => store.navigate({ name: "session", id });
  return { id: `session-${id}`, label: title || "No title", note: "session", run };
}

function listSessionCommands(store: Console): PaletteCommand[] {
  const session = store.session.value;
  if (!session) return [];
  const spending: PaletteCommand = {
    id: "spending",
    label: "Tokens and cost",
    note: "g c",
    run: () => (store.openPanel.value = "spending"),
  };
  const conversation: PaletteCommand = {
    id: "conversation",
    label: "Context window, copy and export",
    note: "panel",
    run: () => (store.openPanel.value = "conversation"),
  };
  const changes: PaletteCommand = {
    id: "changes",
    label: "Changes of the session",
    note: "view",
    run: () => store.navigate({ name: "changes", id: session.id }),
  };
  const commands = [changes, spending, conversation, ...listConversationCommands(store, session)];
  if (!session.isBusy.value) return [...listRewindCommands(session), ...commands];
  return [{ id: "stop", label: "Stop the run", note: "Esc Esc", run: () => void session.stop() }, ...commands];
}

/** `action` opens the dialog that performs it. A subagent's session has none: its parent's session undoes its work. */
function listRewindCommands(session: WatchedSession): PaletteCommand[] {
  if (session.info.value?.spawned_by) return [];
  return (["undo", "redo"] as const).map((action) => ({
    id: action,
    label: action === "undo" ? "Undo the last run" : "Redo what was undone",
    note: `/${action}`,
    run: () => (rewindTask.value = { session, action }),
  }));
}

function listViewCommands(store: Console): PaletteCommand[] {
  const isDark = store.theme.value === "dark";
  return [
    ...VIEWS.map(([name, label, note]) => ({ id: name, label, note, run: () => store.navigate({ name }) })),
    {
      id: "theme",
      label: isDark ? "Light theme" : "Dark theme",
      note: "t",
      run: () => (store.theme.value = isDark ? "light" : "dark"),
    },
    { id: "help", label: "Keyboard shortcuts", note: "?", run: () => (store.openPanel.value = "help") },
  ];
}

function listModeCommands(store: Console): PaletteCommand[] {
  const currentMode = readMode(store);
  if (currentMode === undefined) return [];
  return (["auto", "ask", "plan"] as const).map((mode) => ({
    id: `mode-${mode}`,
    label: `Mode ${MODES[mode][0]}: ${MODES[mode][1]}`,
    note: mode === currentMode ? "current" : "Alt M",
    run: () => void setMode(store, mode),
  }));
}

function listModelCommands(store: Console): PaletteCommand[] {
  const session = store.session.value;
  if (!session && store.route.value.name !== "new") return [];
  return (store.models.value ?? []).map(({ provider, model }: ApiModel) => ({
    id: `model-${provider}/${model.id}`,
    label: `Model ${model.name || model.id}`,
    note: provider,
    run: () => {
      const reference = { provider, model: model.id };
      if (session) void session.update(reference);
      else store.newSessionSettings.model.value = reference;
    },
  }));
}
