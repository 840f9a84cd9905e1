import type { Session } from "gantry/client";
import type { TerminalStore } from "./store.js";
import { Confirm, Picker, TextOverlay, type Entry } from "./overlays.js";
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
export function runCommand(desk: TerminalStore, line: string): void {
  const [word = "", ...words] = line.slice(1).split(/\s+/);
  const argument = words.join(" ").trim();
  const command = Object.hasOwn(COMMAND_HANDLERS, word) ? COMMAND_HANDLERS[word] : undefined;
  if (command) command(desk, argument);
  else desk.attempt(() => sendCommand(desk, word, line));
}

/** A command of the agent is sent as a prompt of its own, also during a run. */
async function sendCommand(desk: TerminalStore, word: string, line: string): Promise<void> {
  const agentCommands = await desk.loadAgentCommands();
  if (agentCommands.some(([name]) => name === word)) desk.send(line, [], true);
  else desk.notice(`There is no command /${escapeLine(word)}; /help lists them.`, true);
}

const COMMAND_HANDLERS: Readonly<Record<string, (desk: TerminalStore, argument: string) => void>> = {
  help: (desk) =>
    desk.attempt(async () => {
      const agentCommands = await desk.loadAgentCommands().catch(() => []);
      const rows = [...COMMANDS, ...agentCommands].map(([name, about]) => [`/${name}`, about] as const);
      desk.show(new TextOverlay("Keys and commands", [...KEYS, ...rows]));
    }),
  new: (desk) => desk.startNew(),
  sessions: (desk, argument) => (argument === "" ? chooseSession(desk) : desk.attempt(() => desk.open(argument))),
  model: chooseModel,
  mode: chooseMode,
  effort: chooseEffort,
  title: (desk, argument) => {
    if (argument === "") return desk.notice(`This session is called ${titleOf(desk)}. /title NAME names it.`);
    if (desk.conversation.id === undefined) return desk.notice("No session yet; your first prompt creates it.");
    desk.attempt(() => desk.conversation.change({ title: argument }));
  },
  cost: (desk) => desk.attempt(() => showCost(desk)),
  compact: (desk, argument) => desk.attempt(() => compact(desk, argument)),
  delete: (desk) => {
    const { id } = desk.conversation;
    if (id === undefined) desk.notice("No session yet; your first prompt creates it.");
    else desk.show(confirmDelete(desk, { id, label: titleOf(desk), about: "" }, () => undefined));
  },
  stop: (desk) => desk.attempt(() => desk.conversation.stop()),
  mouse: (desk) => {
    desk.wheel = !desk.wheel;
    desk.options.wheel(desk.wheel);
    desk.notice(desk.wheel ? "The wheel scrolls." : "The mouse selects text; PgUp and PgDn scroll.");
  },
  quit: (desk) => desk.options.requestExit(),
  exit: (desk) => desk.options.requestExit(),
};

function titleOf(desk: TerminalStore): string {
  return desk.conversation.page.state?.session.title ?? "nothing yet";
}

function chooseModel(desk: TerminalStore, requestedModel: string): void {
  desk.attempt(async () => {
    const { conversation } = desk;
    const picker = new Picker({
      title: "Model",
      entries: [],
      current: conversation.model,
      pick: ({ id }) => desk.attempt(() => setModel(desk, id)),
    });
    picker.note = "loading models ...";
    if (requestedModel === "") desk.show(picker);
    const models = await desk.models();
    const entries = models.map(({ provider, model }): Entry => ({
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
    await setModel(desk, first.id);
  });
}

async function setModel(desk: TerminalStore, id: string): Promise<void> {
  const provider = id.slice(0, id.indexOf("/"));
  await desk.conversation.change({ provider, model: id.slice(provider.length + 1) });
  desk.notice(`Model: ${escapeLine(id)}.`);
}

function chooseMode(desk: TerminalStore, requestedMode: string): void {
  const set = (mode: string) =>
    desk.attempt(async () => {
      if (mode !== "auto" && mode !== "ask" && mode !== "plan")
        throw new Error(`no mode ${mode}; expected one of ${Object.keys(MODES).join(", ")}`);
      await desk.conversation.change({ mode });
      desk.notice(`The mode is ${mode}: ${MODES[mode] ?? ""}.`);
    });
  if (requestedMode !== "") return set(requestedMode);
  const entries = Object.entries(MODES).map(([id, about]): Entry => ({ id, label: id, about }));
  desk.show(new Picker({ title: "Mode", entries, current: desk.conversation.mode, pick: ({ id }) => set(id) }));
}

function chooseEffort(desk: TerminalStore, requestedEffort: string): void {
  const { conversation } = desk;
  const set = (effort: string) =>
    desk.attempt(async () => {
      const knownEffort = EFFORTS.find((candidate) => candidate === effort);
      if (!knownEffort && effort !== "default")
        throw new Error(`no effort ${effort}; expected one of default, ${EFFORTS.join(", ")}`);
      await conversation.change({ reasoning_effort: knownEffort ?? "" });
      desk.notice(`The effort is ${effort}.`);
    });
  if (requestedEffort !== "") return set(requestedEffort);
  const entries = ["default", ...EFFORTS].map((id): Entry => ({ id, label: id, about: "" }));
  const current = conversation.effort;
  desk.show(
    new Picker({ title: "Effort", entries, current: current === "" ? "default" : current, pick: ({ id }) => set(id) }),
  );
}

async function showCost(desk: TerminalStore): Promise<void> {
  const { id, page } = desk.conversation;
  if (id === undefined) return desk.notice("No messages yet.");
  const runs = await desk.options.client.runs.list({ sessionId: id, size: 10 });
  const usage = page.state?.session.usage;
  const row = (name: string, { prompt_tokens: input, completion_tokens: output, cost }: NonNullable<typeof usage>) =>
    [
      name,
      `${formatCount(input)} in, ${formatCount(output)} out${cost > 0 ? `, $${cost.toFixed(4)}` : ", no price known"}`,
    ] as const;
  desk.show(
    new TextOverlay("Cost", [
      ...(usage ? [row("this session", usage)] : []),
      ...runs.map((run) => row(`${run.started_at.slice(0, 16).replace("T", " ")} ${run.state}`, run.usage)),
    ]),
  );
}

async function compact(desk: TerminalStore, instructions: string): Promise<void> {
  const { conversation } = desk;
  if (conversation.id === undefined) return desk.notice("No messages yet.");
  desk.notice("Summarizing the conversation ...");
  const seen = await conversation.compact(instructions);
  if (seen === 0) desk.notice("There is too little to compact.");
  else if (seen !== undefined)
    desk.notice(`The model now sees ${seen} messages; the full conversation stays visible here.`);
}

function confirmDelete(desk: TerminalStore, { id, label }: Entry, then: () => void): Confirm {
  return new Confirm(`Delete the session "${label}"? All its messages are lost.`, () =>
    desk.attempt(async () => {
      await desk.options.client.sessions.delete(id);
      desk.notice(`Deleted "${escapeLine(label)}".`);
      then();
    }),
  );
}

/** Lists the sessions of this folder, the most recently used first. Scrolling to the end loads the next page. */
export function chooseSession(desk: TerminalStore): void {
  const { client, projectDir } = desk.options;
  let typed = "";
  let page = 0;
  let total = 1;
  let entries: Entry[] = [];
  let asking = false;
  const picker = new Picker({
    title: projectDir === undefined ? "Sessions" : "Sessions of this folder",
    entries: [],
    current: desk.conversation.id,
    pick: ({ id }) => desk.attempt(() => desk.open(id)),
    remove: (entry) => desk.show(confirmDelete(desk, entry, () => chooseSession(desk))),
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
    desk.attempt(async () => {
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
  desk.show(picker);
  load();
}

function entryOf({ id, title, updated_at: used, run }: Session): Entry {
  return { id, label: title, about: `${run ? `${run.state}  ` : ""}${used.slice(0, 16).replace("T", " ")}` };
}
