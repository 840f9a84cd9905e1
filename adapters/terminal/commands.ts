import type { Session } from "gantry/client";
import type { TerminalStore } from "./store.js";
import { Confirm, Picker, TextOverlay, type Entry } from "./overlays.js";
import { writtenLine, short } from "./text.js";

const PAGE = 50;
const MODES: Readonly<Record<string, string>> = {
  auto: "tools run without asking",
  ask: "what changes something is asked before",
  plan: "nothing is changed",
};
const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** Commands that a user can type instead of a prompt. */
export const COMMANDS: readonly (readonly [name: string, about: string])[] = [
  ["help", "keys and commands"],
  ["new", "begin a new session"],
  ["sessions", "go on with another session, or delete one"],
  ["model", "choose the model"],
  ["mode", "how free its tools are: auto, ask, plan"],
  ["effort", "how long the model thinks"],
  ["title", "name this session"],
  ["cost", "tokens and money of this session"],
  ["compact", "sum up what was said; behind it what to keep"],
  ["delete", "delete this session"],
  ["stop", "end the run under way"],
  ["mouse", "the wheel scrolls here, or the terminal marks text"],
  ["quit", "leave; a run goes on only where a server has it"],
];

const KEYS: readonly (readonly [key: string, about: string])[] = [
  ["Enter", "send; while a run goes on: tell it this"],
  ["Alt+Enter, Ctrl+J, \\ Enter", "a new line"],
  ["↑ ↓", "what you said before; in several lines: the line above, below"],
  ["PgUp PgDn, wheel", "scroll; at the top the 50 messages before come"],
  ["Ctrl+Home, Ctrl+End", "to the first message that is here, to the last"],
  ["Ctrl+O", "thoughts, outputs and diffs whole, or short again"],
  ["@", "name a file, which is attached"],
  ["Tab", "complete; from a question to the prompt and back"],
  ["Ctrl+C", "stop the run; a second one leaves"],
  ["Ctrl+D", "leave, where nothing is written"],
  ["Ctrl+Z", "back to the shell; fg comes back"],
];

/** Runs a line that starts with `/`. */
export function runCommand(desk: TerminalStore, line: string): void {
  const [word = "", ...rest] = line.slice(1).split(/\s+/);
  const said = rest.join(" ").trim();
  const command = Object.hasOwn(DOES, word) ? DOES[word] : undefined;
  if (command) command(desk, said);
  else desk.attempt(() => sayCommand(desk, word, line));
}

/** A command of the agent is sent as a prompt of its own, also during a run. */
async function sayCommand(desk: TerminalStore, word: string, line: string): Promise<void> {
  const known = await desk.saidCommands();
  if (known.some(([name]) => name === word)) desk.say(line, [], true);
  else desk.notice(`There is no command /${writtenLine(word)}; /help lists them.`, true);
}

const DOES: Readonly<Record<string, (desk: TerminalStore, said: string) => void>> = {
  help: (desk) =>
    desk.attempt(async () => {
      const said = await desk.saidCommands().catch(() => []);
      const rows = [...COMMANDS, ...said].map(([name, about]) => [`/${name}`, about] as const);
      desk.show(new TextOverlay("Keys and commands", [...KEYS, ...rows]));
    }),
  new: (desk) => desk.fresh(),
  sessions: (desk, said) => (said === "" ? chooseSession(desk) : desk.attempt(() => desk.open(said))),
  model: chooseModel,
  mode: chooseMode,
  effort: chooseEffort,
  title: (desk, said) => {
    if (said === "") return desk.notice(`This session is called ${titleOf(desk)}. /title NAME names it.`);
    if (desk.conversation.id === undefined) return desk.notice("There is no session yet: it begins with a prompt.");
    desk.attempt(() => desk.conversation.change({ title: said }));
  },
  cost: (desk) => desk.attempt(() => tellCost(desk)),
  compact: (desk, said) => desk.attempt(() => compact(desk, said)),
  delete: (desk) => {
    const { id } = desk.conversation;
    if (id === undefined) desk.notice("There is no session yet: it begins with a prompt.");
    else desk.show(confirmDelete(desk, { id, label: titleOf(desk), about: "" }, () => undefined));
  },
  stop: (desk) => desk.attempt(() => desk.conversation.stop()),
  mouse: (desk) => {
    desk.wheel = !desk.wheel;
    desk.options.wheel(desk.wheel);
    desk.notice(desk.wheel ? "The wheel scrolls." : "The mouse marks text; PgUp and PgDn scroll.");
  },
  quit: (desk) => desk.options.leave(),
  exit: (desk) => desk.options.leave(),
};

function titleOf(desk: TerminalStore): string {
  return desk.conversation.page.state?.session.title ?? "nothing yet";
}

function chooseModel(desk: TerminalStore, said: string): void {
  desk.attempt(async () => {
    const { conversation } = desk;
    const picker = new Picker({
      title: "Model",
      entries: [],
      current: conversation.model,
      pick: ({ id }) => desk.attempt(() => setModel(desk, id)),
    });
    picker.note = "asking the providers ...";
    if (said === "") desk.show(picker);
    const models = await desk.models();
    const entries = models.map(({ provider, model }): Entry => ({
      id: `${provider}/${model.id}`,
      label: `${provider}/${model.id}`,
      about: model.name === model.id ? "" : model.name,
    }));
    picker.note = "no provider can be reached, or none is configured";
    picker.entries = entries;
    if (said === "") return;
    const same = entries.filter(({ id }) => id === said || id.slice(id.indexOf("/") + 1) === said);
    const [first] = same;
    if (!first || same.length > 1)
      throw new Error(`${same.length === 0 ? "no" : "more than one"} model ${said}; /model lists them`);
    await setModel(desk, first.id);
  });
}

async function setModel(desk: TerminalStore, id: string): Promise<void> {
  const provider = id.slice(0, id.indexOf("/"));
  await desk.conversation.change({ provider, model: id.slice(provider.length + 1) });
  desk.notice(`From now on ${writtenLine(id)} answers.`);
}

function chooseMode(desk: TerminalStore, said: string): void {
  const set = (mode: string) =>
    desk.attempt(async () => {
      if (mode !== "auto" && mode !== "ask" && mode !== "plan")
        throw new Error(`no mode ${mode}; expected one of ${Object.keys(MODES).join(", ")}`);
      await desk.conversation.change({ mode });
      desk.notice(`The mode is ${mode}: ${MODES[mode] ?? ""}.`);
    });
  if (said !== "") return set(said);
  const entries = Object.entries(MODES).map(([id, about]): Entry => ({ id, label: id, about }));
  desk.show(new Picker({ title: "Mode", entries, current: desk.conversation.mode, pick: ({ id }) => set(id) }));
}

function chooseEffort(desk: TerminalStore, said: string): void {
  const { conversation } = desk;
  const set = (effort: string) =>
    desk.attempt(async () => {
      const found = EFFORTS.find((one) => one === effort);
      if (!found && effort !== "default")
        throw new Error(`no effort ${effort}; expected one of default, ${EFFORTS.join(", ")}`);
      await conversation.change({ reasoning_effort: found ?? "" });
      desk.notice(`The effort is ${effort}.`);
    });
  if (said !== "") return set(said);
  const entries = ["default", ...EFFORTS].map((id): Entry => ({ id, label: id, about: "" }));
  const current = conversation.effort;
  desk.show(
    new Picker({ title: "Effort", entries, current: current === "" ? "default" : current, pick: ({ id }) => set(id) }),
  );
}

async function tellCost(desk: TerminalStore): Promise<void> {
  const { id, page } = desk.conversation;
  if (id === undefined) return desk.notice("Nothing was said yet.");
  const runs = await desk.options.client.runs.list({ sessionId: id, size: 10 });
  const usage = page.state?.session.usage;
  const row = (name: string, { prompt_tokens: input, completion_tokens: output, cost }: NonNullable<typeof usage>) =>
    [
      name,
      `${short(input)} in, ${short(output)} out${cost > 0 ? `, $${cost.toFixed(4)}` : ", no price known"}`,
    ] as const;
  desk.show(
    new TextOverlay("Cost", [
      ...(usage ? [row("this session", usage)] : []),
      ...runs.map((run) => row(`${run.started_at.slice(0, 16).replace("T", " ")} ${run.state}`, run.usage)),
    ]),
  );
}

async function compact(desk: TerminalStore, wanted: string): Promise<void> {
  const { conversation } = desk;
  if (conversation.id === undefined) return desk.notice("Nothing was said yet.");
  desk.notice("The model sums up what was said ...");
  const seen = await conversation.compact(wanted);
  if (seen === 0) desk.notice("There is too little here to be summed up.");
  else if (seen !== undefined) desk.notice(`Its model sees ${seen} messages now; you see all that was said.`);
}

function confirmDelete(desk: TerminalStore, { id, label }: Entry, then: () => void): Confirm {
  return new Confirm(`Delete the session "${label}"? All that was said in it goes.`, () =>
    desk.attempt(async () => {
      await desk.options.client.sessions.delete(id);
      desk.notice(`Deleted "${writtenLine(label)}".`);
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
  let found: Entry[] = [];
  let asking = false;
  const picker = new Picker({
    title: projectDir === undefined ? "Sessions" : "Sessions of this folder",
    entries: [],
    current: desk.conversation.id,
    pick: ({ id }) => desk.attempt(() => desk.open(id)),
    remove: (entry) => desk.show(confirmDelete(desk, entry, () => chooseSession(desk))),
    more: () => load(),
    search: (text) => {
      typed = text;
      [page, total, found] = [0, 1, []];
      asking = false;
      load();
    },
  });
  const load = () => {
    if (asking || found.length >= total) return;
    asking = true;
    const wanted = typed;
    desk.attempt(async () => {
      const list = await client.sessions.list({
        page: page + 1,
        size: PAGE,
        ...(wanted !== "" && { search: wanted }),
        ...(projectDir !== undefined && { projectDir }),
      });
      if (wanted !== typed) return;
      asking = false;
      page += 1;
      total = list.sessions.length === 0 ? found.length : list.total;
      // A session used since the last page has moved to the front. Another session has then moved to this page again.
      const known = new Set(found.map(({ id }) => id));
      found = [...found, ...list.sessions.filter(({ id }) => !known.has(id)).map(entryOf)];
      picker.note = "no session yet";
      picker.entries = found;
    });
  };
  picker.note = "...";
  desk.show(picker);
  load();
}

function entryOf({ id, title, updated_at: used, run }: Session): Entry {
  return { id, label: title, about: `${run ? `${run.state}  ` : ""}${used.slice(0, 16).replace("T", " ")}` };
}
