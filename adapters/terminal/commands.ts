import type { ApiSession } from "gantry/client";
import { COMMANDS } from "./command-list.js";
import { showChanges } from "./change-commands.js";
import { showContext } from "./context-command.js";
import { chooseQuestion, setBell } from "./question-commands.js";
import { search } from "./search-command.js";
import { runShellLine } from "./shell-command.js";
import { useWorktree } from "./worktree-command.js";
import { fork, retry, rewind, undo } from "./rewind-commands.js";
import type { TerminalStore } from "./store.js";
import { Confirmation, Picker, TextOverlay, type ListEntry } from "./overlays.js";
import { escapeLine, formatCount } from "./text.js";

/** Number of sessions that are loaded at once. */
const PAGE_SIZE = 50;
/** Maximum number of runs that `/cost` shows. */
const MAX_COST_RUNS = 10;
const MODES: Readonly<Record<string, string>> = {
  auto: "tools run without asking",
  ask: "changes need your permission",
  plan: "nothing is changed",
};
const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;

const KEY_DESCRIPTIONS: readonly (readonly [key: string, description: string])[] = [
  ["Enter", "send; during a run: add an instruction"],
  ["Alt+Enter, Ctrl+J, \\ Enter", "a new line"],
  ["↑ ↓", "earlier prompts; in a long prompt: the line above or below"],
  ["PgUp PgDn, wheel", "scroll; at the top, load 50 earlier messages"],
  ["Ctrl+Home, Ctrl+End", "to the first loaded message, to the last"],
  ["Ctrl+O", "show thoughts, outputs and diffs in full, or shortened"],
  ["@", "attach a file"],
  ["!", "run a shell command; !! hides it from the model"],
  ["Ctrl+G", "open the prompt in $VISUAL or $EDITOR"],
  ["Ctrl+R", "search earlier prompts"],
  ["Shift+Tab", "next permission mode: auto, ask, plan"],
  ["Tab", "complete; switch between question and prompt"],
  ["Ctrl+B", "move a running command to the background, if the prompt is empty"],
  ["Ctrl+C", "stop the run; press again to quit"],
  ["Ctrl+D", "quit, if the prompt is empty"],
  ["Ctrl+Z", "suspend; fg resumes"],
];

export { COMMANDS } from "./command-list.js";
export { searchHistory } from "./question-commands.js";

/** Runs a line that starts with `/`, a command of the terminal or of the agent, or with `!`, a shell command. */
export function runCommand(store: TerminalStore, line: string): void {
  if (line.startsWith("!")) return store.holdText(line, () => runShellLine(store, line));
  const [commandName = "", ...argumentWords] = line.slice(1).split(/\s+/);
  const argument = argumentWords.join(" ").trim();
  const command = Object.hasOwn(COMMAND_HANDLERS, commandName) ? COMMAND_HANDLERS[commandName] : undefined;
  if (command) command(store, argument);
  else store.holdText(line, () => sendCommand(store, commandName, line));
}

/** Sends a command of the agent as a separate prompt, also during a run. */
async function sendCommand(store: TerminalStore, commandName: string, line: string): Promise<void> {
  const agentCommands = await store.loadAgentCommands();
  if (agentCommands.some(([knownName]) => knownName === commandName)) store.send(line, [], true);
  else store.showNotice(`Unknown command /${escapeLine(commandName)}; /help lists the commands.`, true);
}

const COMMAND_HANDLERS: Readonly<Record<string, (store: TerminalStore, argument: string) => void>> = {
  help: (store) =>
    store.attempt(async () => {
      const agentCommands = await store.loadAgentCommands().catch(() => []);
      const rows = [...COMMANDS, ...agentCommands].map(([name, description]) => [`/${name}`, description] as const);
      store.showOverlay(new TextOverlay("Keys and commands", [...KEY_DESCRIPTIONS, ...rows]));
    }),
  new: (store) => store.startNewSession(),
  sessions: (store, argument) => {
    if (argument === "") chooseSession(store);
    else if (argument === "archived") chooseSession(store, "only");
    else store.attempt(() => store.open(argument));
  },
  search,
  changes: showChanges,
  worktree: useWorktree,
  context: (store) => store.attempt(() => showContext(store)),
  questions: chooseQuestion,
  bell: setBell,
  undo: (store) => undo(store, "undo"),
  redo: (store) => undo(store, "redo"),
  fork,
  rewind,
  retry,
  model: chooseModel,
  mode: chooseMode,
  effort: chooseEffort,
  title: (store, argument) => {
    if (argument === "") return store.showNotice(`Title of this session: ${getTitle(store)}. /title NAME changes it.`);
    if (store.conversation.id === undefined) return store.showNotice("No session yet; your first prompt creates it.");
    store.attempt(() => store.conversation.change({ title: argument }));
  },
  cost: (store) => store.attempt(() => showCost(store)),
  compact: (store, argument) => store.attempt(() => compact(store, argument)),
  delete: (store) => {
    const { id } = store.conversation;
    if (id === undefined) store.showNotice("No session yet; your first prompt creates it.");
    else store.showOverlay(confirmDelete(store, { id, label: getTitle(store), description: "" }, () => undefined));
  },
  background: (store) => store.attempt(() => store.conversation.moveToBackground()),
  stop: (store) => store.attempt(() => store.conversation.sender.stop()),
  mouse: (store) => {
    store.hasWheel = !store.hasWheel;
    store.options.setWheel(store.hasWheel);
    store.showNotice(store.hasWheel ? "The wheel scrolls." : "The mouse selects text; PgUp and PgDn scroll.");
  },
  quit: (store) => store.options.requestExit(),
  exit: (store) => store.options.requestExit(),
};

function getTitle(store: TerminalStore): string {
  return store.conversation.mirror.state?.session.title ?? "untitled";
}

function chooseModel(store: TerminalStore, requestedModel: string): void {
  store.attempt(async () => {
    const { conversation } = store;
    const picker = new Picker({
      title: "Model",
      entries: [],
      currentId: conversation.model,
      pick: ({ id }) => store.attempt(() => setModel(store, id)),
    });
    picker.emptyText = "loading models ...";
    if (requestedModel === "") store.showOverlay(picker);
    const models = await store.catalog.loadModels();
    const entries = models.map(({ provider, model }): ListEntry => ({
      id: `${provider}/${model.id}`,
      label: `${provider}/${model.id}`,
      description: model.name === model.id ? "" : model.name,
    }));
    picker.emptyText = "no provider is configured or reachable";
    picker.entries = entries;
    if (requestedModel === "") return;
    const matchingEntries = entries.filter(
      ({ id }) => id === requestedModel || id.slice(id.indexOf("/") + 1) === requestedModel,
    );
    const [firstMatch] = matchingEntries;
    if (!firstMatch || matchingEntries.length > 1)
      throw new Error(
        `${matchingEntries.length === 0 ? "no" : "more than one"} model ${requestedModel}; /model lists them`,
      );
    await setModel(store, firstMatch.id);
  });
}

/** Sets the model of the session. `id`: `provider/model`, split at the first slash. */
async function setModel(store: TerminalStore, id: string): Promise<void> {
  const provider = id.slice(0, id.indexOf("/"));
  await store.conversation.change({ provider, model: id.slice(provider.length + 1) });
  store.showNotice(`Model: ${escapeLine(id)}.`);
}

function chooseMode(store: TerminalStore, requestedMode: string): void {
  const setMode = (mode: string) =>
    store.attempt(async () => {
      if (mode !== "auto" && mode !== "ask" && mode !== "plan")
        throw new Error(`no mode ${mode}; expected one of ${Object.keys(MODES).join(", ")}`);
      await store.conversation.change({ mode });
      store.showNotice(`The mode is ${mode}: ${MODES[mode] ?? ""}.`);
    });
  if (requestedMode !== "") return setMode(requestedMode);
  const entries = Object.entries(MODES).map(([id, description]): ListEntry => ({ id, label: id, description }));
  store.showOverlay(
    new Picker({ title: "Mode", entries, currentId: store.conversation.mode, pick: ({ id }) => setMode(id) }),
  );
}

function chooseEffort(store: TerminalStore, requestedEffort: string): void {
  const { conversation } = store;
  const setEffort = (effort: string) =>
    store.attempt(async () => {
      const validEffort = EFFORTS.find((candidate) => candidate === effort);
      if (!validEffort && effort !== "default")
        throw new Error(`no effort ${effort}; expected one of default, ${EFFORTS.join(", ")}`);
      await conversation.change({ reasoning_effort: validEffort ?? "" });
      store.showNotice(`The effort is ${effort}.`);
    });
  if (requestedEffort !== "") return setEffort(requestedEffort);
  const entries = ["default", ...EFFORTS].map((id): ListEntry => ({ id, label: id, description: "" }));
  const currentEffort = conversation.effort;
  store.showOverlay(
    new Picker({
      title: "Effort",
      entries,
      currentId: currentEffort === "" ? "default" : currentEffort,
      pick: ({ id }) => setEffort(id),
    }),
  );
}

async function showCost(store: TerminalStore): Promise<void> {
  const { id, mirror } = store.conversation;
  if (id === undefined) return store.showNotice("No messages yet.");
  const runs = await store.options.client.runs.list({ sessionId: id, size: MAX_COST_RUNS });
  const usage = mirror.state?.session.usage;
  const toRow = (name: string, { prompt_tokens: input, completion_tokens: output, cost }: NonNullable<typeof usage>) =>
    [
      name,
      `${formatCount(input)} in, ${formatCount(output)} out${cost > 0 ? `, $${cost.toFixed(4)}` : ", price unknown"}`,
    ] as const;
  store.showOverlay(
    new TextOverlay("Cost", [
      ...(usage ? [toRow("this session", usage)] : []),
      ...runs.map((run) => toRow(`${run.started_at.slice(0, 16).replace("T", " ")} ${run.state}`, run.usage)),
    ]),
  );
}

async function compact(store: TerminalStore, instructions: string): Promise<void> {
  const { conversation } = store;
  if (conversation.id === undefined) return store.showNotice("No messages yet.");
  store.showNotice("Summarizing the conversation ...");
  const messageCount = await conversation.compact(instructions);
  if (messageCount === 0) store.showNotice("There is too little to compact.");
  else if (messageCount !== undefined)
    store.showNotice(`The model now sees ${messageCount} messages; the full conversation stays visible here.`);
}

function confirmDelete(store: TerminalStore, { id, label }: ListEntry, onDeleted: () => void): Confirmation {
  return new Confirmation(`Delete the session "${label}"? This also deletes all its messages.`, () =>
    store.attempt(async () => {
      await store.options.client.sessions.delete(id);
      store.showNotice(`Deleted "${escapeLine(label)}".`);
      onDeleted();
    }),
  );
}

/** Shows the sessions of this folder, the most recently used first. Scrolling to the end loads the next page. */
function chooseSession(store: TerminalStore, archived: "exclude" | "only" = "exclude"): void {
  const { client, projectDir } = store.options;
  let currentSearch = "";
  let page = 0;
  let total = 1;
  let entries: ListEntry[] = [];
  let isLoading = false;
  const picker = new Picker({
    title: `${archived === "only" ? "Archived sessions" : "Sessions"}${projectDir === undefined ? "" : " of this folder"}`,
    entries: [],
    currentId: store.conversation.id,
    pick: ({ id }) => store.attempt(() => store.open(id)),
    remove: (entry) => store.showOverlay(confirmDelete(store, entry, () => chooseSession(store, archived))),
    loadMore: () => load(),
    search: (text) => {
      currentSearch = text;
      [page, total, entries] = [0, 1, []];
      isLoading = false;
      load();
    },
  });
  const load = () => {
    if (isLoading || entries.length >= total) return;
    isLoading = true;
    const searchText = currentSearch;
    store.attempt(async () => {
      const list = await client.sessions.list({
        page: page + 1,
        size: PAGE_SIZE,
        archived,
        ...(searchText !== "" && { search: searchText }),
        ...(projectDir !== undefined && { projectDir }),
      });
      if (searchText !== currentSearch) return;
      isLoading = false;
      page += 1;
      total = list.sessions.length === 0 ? entries.length : list.total;
      // A session that was used in the meantime moved to the front. A session of the last page then appears here again.
      const loadedIds = new Set(entries.map(({ id }) => id));
      entries = [...entries, ...list.sessions.filter(({ id }) => !loadedIds.has(id)).map(toListEntry)];
      picker.emptyText = "no session yet";
      picker.entries = entries;
    });
  };
  picker.emptyText = "...";
  store.showOverlay(picker);
  load();
}

function toListEntry({ id, title, updated_at: updatedAt, run }: ApiSession): ListEntry {
  return { id, label: title, description: `${run ? `${run.state}  ` : ""}${updatedAt.slice(0, 16).replace("T", " ")}` };
}
