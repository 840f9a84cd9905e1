import type { ApiSession } from "gantry/client";
import type { TerminalStore } from "./store.js";
import { Confirm, Picker, TextOverlay, type ListEntry } from "./overlays.js";
import { escapeLine, formatCount } from "./text.js";

const PAGE_SIZE = 50;
const MODES: Readonly<Record<string, string>> = {
  auto: "tools run without asking",
  ask: "changes need your permission",
  plan: "nothing is changed",
};
const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** Commands that a user can type instead of a prompt. */
export const COMMANDS: readonly (readonly [name: string, about: string])[] = [
  ["help", "keys and commands"],
  ["new", "begin a new session"],
  ["sessions", "continue another session, or delete one"],
  ["model", "choose the model"],
  ["mode", "what tools may do: auto, ask, plan"],
  ["effort", "how long the model thinks"],
  ["title", "name this session"],
  ["cost", "tokens and money of this session"],
  ["compact", "summarize the conversation; add what to keep"],
  ["delete", "delete this session"],
  ["stop", "stop the current run"],
  ["mouse", "the wheel scrolls, or the terminal selects text"],
  ["quit", "quit; a run continues only on a server"],
];

const KEYS: readonly (readonly [key: string, about: string])[] = [
  ["Enter", "send; during a run: add an instruction"],
  ["Alt+Enter, Ctrl+J, \\ Enter", "a new line"],
  ["↑ ↓", "earlier prompts; in a long prompt: the line above or below"],
  ["PgUp PgDn, wheel", "scroll; at the top, load 50 earlier messages"],
  ["Ctrl+Home, Ctrl+End", "to the first loaded message, to the last"],
  ["Ctrl+O", "show thoughts, outputs and diffs in full, or shortened"],
  ["@", "attach a file"],
  ["Tab", "complete; switch between question and prompt"],
  ["Ctrl+C", "stop the run; press again to quit"],
  ["Ctrl+D", "quit, if the prompt is empty"],
  ["Ctrl+Z", "suspend; fg resumes"],
];

/** Runs a line that starts with `/`. */
export function runCommand(store: TerminalStore, line: string): void {
  const [word = "", ...words] = line.slice(1).split(/\s+/);
  const argument = words.join(" ").trim();
  const command = Object.hasOwn(COMMAND_HANDLERS, word) ? COMMAND_HANDLERS[word] : undefined;
  if (command) command(store, argument);
  else store.attempt(() => sendCommand(store, word, line));
}

/** A command of the agent is sent as a prompt of its own, also during a run. */
async function sendCommand(store: TerminalStore, word: string, line: string): Promise<void> {
  const agentCommands = await store.loadAgentCommands();
  if (agentCommands.some(([name]) => name === word)) store.send(line, [], true);
  else store.notice(`There is no command /${escapeLine(word)}; /help lists them.`, true);
}

const COMMAND_HANDLERS: Readonly<Record<string, (store: TerminalStore, argument: string) => void>> = {
  help: (store) =>
    store.attempt(async () => {
      const agentCommands = await store.loadAgentCommands().catch(() => []);
      const rows = [...COMMANDS, ...agentCommands].map(([name, about]) => [`/${name}`, about] as const);
      store.show(new TextOverlay("Keys and commands", [...KEYS, ...rows]));
    }),
  new: (store) => store.startNew(),
  sessions: (store, argument) => (argument === "" ? chooseSession(store) : store.attempt(() => store.open(argument))),
  model: chooseModel,
  mode: chooseMode,
  effort: chooseEffort,
  title: (store, argument) => {
    if (argument === "") return store.notice(`This session is called ${titleOf(store)}. /title NAME names it.`);
    if (store.conversation.id === undefined) return store.notice("No session yet; your first prompt creates it.");
    store.attempt(() => store.conversation.change({ title: argument }));
  },
  cost: (store) => store.attempt(() => showCost(store)),
  compact: (store, argument) => store.attempt(() => compact(store, argument)),
  delete: (store) => {
    const { id } = store.conversation;
    if (id === undefined) store.notice("No session yet; your first prompt creates it.");
    else store.show(confirmDelete(store, { id, label: titleOf(store), about: "" }, () => undefined));
  },
  stop: (store) => store.attempt(() => store.conversation.stop()),
  mouse: (store) => {
    store.wheel = !store.wheel;
    store.options.wheel(store.wheel);
    store.notice(store.wheel ? "The wheel scrolls." : "The mouse selects text; PgUp and PgDn scroll.");
  },
  quit: (store) => store.options.requestExit(),
  exit: (store) => store.options.requestExit(),
};

function titleOf(store: TerminalStore): string {
  return store.conversation.mirror.state?.session.title ?? "nothing yet";
}

function chooseModel(store: TerminalStore, requestedModel: string): void {
  store.attempt(async () => {
    const { conversation } = store;
    const picker = new Picker({
      title: "Model",
      entries: [],
      current: conversation.model,
      pick: ({ id }) => store.attempt(() => setModel(store, id)),
    });
    picker.note = "loading models ...";
    if (requestedModel === "") store.show(picker);
    const models = await store.models();
    const entries = models.map(({ provider, model }): ListEntry => ({
      id: `${provider}/${model.id}`,
      label: `${provider}/${model.id}`,
      about: model.name === model.id ? "" : model.name,
    }));
    picker.note = "no provider is configured or reachable";
    picker.entries = entries;
    if (requestedModel === "") return;
    const same = entries.filter(({ id }) => id === requestedModel || id.slice(id.indexOf("/") + 1) === requestedModel);
    const [first] = same;
    if (!first || same.length > 1)
      throw new Error(`${same.length === 0 ? "no" : "more than one"} model ${requestedModel}; /model lists them`);
    await setModel(store, first.id);
  });
}

async function setModel(store: TerminalStore, id: string): Promise<void> {
  const provider = id.slice(0, id.indexOf("/"));
  await store.conversation.change({ provider, model: id.slice(provider.length + 1) });
  store.notice(`Model: ${escapeLine(id)}.`);
}

function chooseMode(store: TerminalStore, requestedMode: string): void {
  const set = (mode: string) =>
    store.attempt(async () => {
      if (mode !== "auto" && mode !== "ask" && mode !== "plan")
        throw new Error(`no mode ${mode}; expected one of ${Object.keys(MODES).join(", ")}`);
      await store.conversation.change({ mode });
      store.notice(`The mode is ${mode}: ${MODES[mode] ?? ""}.`);
    });
  if (requestedMode !== "") return set(requestedMode);
  const entries = Object.entries(MODES).map(([id, about]): ListEntry => ({ id, label: id, about }));
  store.show(new Picker({ title: "Mode", entries, current: store.conversation.mode, pick: ({ id }) => set(id) }));
}

function chooseEffort(store: TerminalStore, requestedEffort: string): void {
  const { conversation } = store;
  const set = (effort: string) =>
    store.attempt(async () => {
      const knownEffort = EFFORTS.find((candidate) => candidate === effort);
      if (!knownEffort && effort !== "default")
        throw new Error(`no effort ${effort}; expected one of default, ${EFFORTS.join(", ")}`);
      await conversation.change({ reasoning_effort: knownEffort ?? "" });
      store.notice(`The effort is ${effort}.`);
    });
  if (requestedEffort !== "") return set(requestedEffort);
  const entries = ["default", ...EFFORTS].map((id): ListEntry => ({ id, label: id, about: "" }));
  const current = conversation.effort;
  store.show(
    new Picker({ title: "Effort", entries, current: current === "" ? "default" : current, pick: ({ id }) => set(id) }),
  );
}

async function showCost(store: TerminalStore): Promise<void> {
  const { id, mirror } = store.conversation;
  if (id === undefined) return store.notice("No messages yet.");
  const runs = await store.options.client.runs.list({ sessionId: id, size: 10 });
  const usage = mirror.state?.session.usage;
  const row = (name: string, { prompt_tokens: input, completion_tokens: output, cost }: NonNullable<typeof usage>) =>
    [
      name,
      `${formatCount(input)} in, ${formatCount(output)} out${cost > 0 ? `, $${cost.toFixed(4)}` : ", no price known"}`,
    ] as const;
  store.show(
    new TextOverlay("Cost", [
      ...(usage ? [row("this session", usage)] : []),
      ...runs.map((run) => row(`${run.started_at.slice(0, 16).replace("T", " ")} ${run.state}`, run.usage)),
    ]),
  );
}

async function compact(store: TerminalStore, instructions: string): Promise<void> {
  const { conversation } = store;
  if (conversation.id === undefined) return store.notice("No messages yet.");
  store.notice("Summarizing the conversation ...");
  const seen = await conversation.compact(instructions);
  if (seen === 0) store.notice("There is too little to compact.");
  else if (seen !== undefined)
    store.notice(`The model now sees ${seen} messages; the full conversation stays visible here.`);
}

function confirmDelete(store: TerminalStore, { id, label }: ListEntry, then: () => void): Confirm {
  return new Confirm(`Delete the session "${label}"? All its messages are lost.`, () =>
    store.attempt(async () => {
      await store.options.client.sessions.delete(id);
      store.notice(`Deleted "${escapeLine(label)}".`);
      then();
    }),
  );
}

/** Lists the sessions of this folder, the most recently used first. Scrolling to the end loads the next page. */
export function chooseSession(store: TerminalStore): void {
  const { client, projectDir } = store.options;
  let typed = "";
  let page = 0;
  let total = 1;
  let entries: ListEntry[] = [];
  let asking = false;
  const picker = new Picker({
    title: projectDir === undefined ? "Sessions" : "Sessions of this folder",
    entries: [],
    current: store.conversation.id,
    pick: ({ id }) => store.attempt(() => store.open(id)),
    remove: (entry) => store.show(confirmDelete(store, entry, () => chooseSession(store))),
    loadMore: () => load(),
    search: (text) => {
      typed = text;
      [page, total, entries] = [0, 1, []];
      asking = false;
      load();
    },
  });
  const load = () => {
    if (asking || entries.length >= total) return;
    asking = true;
    const searchText = typed;
    store.attempt(async () => {
      const list = await client.sessions.list({
        page: page + 1,
        size: PAGE_SIZE,
        ...(searchText !== "" && { search: searchText }),
        ...(projectDir !== undefined && { projectDir }),
      });
      if (searchText !== typed) return;
      asking = false;
      page += 1;
      total = list.sessions.length === 0 ? entries.length : list.total;
      // A session used since the last page has moved to the front. Another session has then moved to this page again.
      const loadedIds = new Set(entries.map(({ id }) => id));
      entries = [...entries, ...list.sessions.filter(({ id }) => !loadedIds.has(id)).map(entryOf)];
      picker.note = "no session yet";
      picker.entries = entries;
    });
  };
  picker.note = "...";
  store.show(picker);
  load();
}

function entryOf({ id, title, updated_at: used, run }: ApiSession): ListEntry {
  return { id, label: title, about: `${run ? `${run.state}  ` : ""}${used.slice(0, 16).replace("T", " ")}` };
}
