import { createHash } from "node:crypto";
import type { FakeCall, FakeRequest, FakeStep } from "./fake-model-server.js";

// A long scripted task. Its model knows a fact only if the request contains it, and its summaries contain only what the
// transcript contains, within the limits that the request gives.

/** Model calls of the task, and of each of its prompts. */
export const TASK_TURNS = 300;
export const PROMPT_TURNS = 50;
export const PROMPT_COUNT = TASK_TURNS / PROMPT_TURNS;
/** Turns between a fact and the step that needs it, in turn. */
const DELAYS = [30, 60, 100, 150];
const CHANGED_FILES = 24;

const TODOS = ["draw the plans", "pour the concrete", "paint the handrail", "test the load", "open the bridge"];
const SKILL_TEXT = "SKILL-BODY: rivets are set at 4 mm";
const INSTRUCTION_TEXT = "INSTRUCTION-BODY: spans are named after rivers";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 8);
const fill = (seed: string, bytes: number): string => {
  let text = "";
  for (let i = 0; text.length < bytes; i += 1) text += `measurement ${i} of ${seed}: ${hash(`${seed}-${i}`)}\n`;
  return text;
};

export interface Fact {
  readonly kind: "RULE" | "FINDING" | "DECISION" | "ERROR";
  readonly turn: number;
  readonly needTurn: number;
  readonly value: string;
  readonly text: string;
}

function createFact(kind: Fact["kind"], turn: number, index: number): Fact {
  const value = `v${turn}-${hash(`${kind} ${turn}`)}`;
  const needTurn = turn + (DELAYS[index % DELAYS.length] ?? 0);
  return { kind, turn, needTurn, value, text: `${kind} ${turn}: item ${turn} of the bridge has the value ${value}` };
}

const KINDS = ["FINDING", "DECISION", "FINDING", "ERROR", "DECISION"] as const;

/** Facts that appear in tool results and answers, one in every third turn; and the rules in the prompts. */
const WORK_FACTS = Array.from({ length: Math.floor(TASK_TURNS / 3) - 2 }, (_, i) =>
  createFact(KINDS[i % KINDS.length] ?? "FINDING", 6 + 3 * i, i),
).filter(({ turn }) => turn % PROMPT_TURNS !== 0);
const RULES = Array.from({ length: PROMPT_COUNT }, (_, i) => createFact("RULE", 1 + i * PROMPT_TURNS, i));
const FACTS = [...WORK_FACTS, ...RULES].filter(({ needTurn }) => needTurn <= TASK_TURNS);

/** The prompt with this number, from 0. Its rule comes after more than 2,000 characters. */
export function createPrompt(index: number): string {
  return `Part ${index + 1} of the bridge.\n${fill(`prompt ${index}`, 2_400)}${RULES[index]?.text ?? ""}\nGo on.`;
}

/** Files of the project, including those with the findings. */
export function createProjectFiles(): Record<string, string> {
  const files: Record<string, string> = {
    ".agents/skills/rivets/SKILL.md": `---\nname: rivets\ndescription: How to set rivets\n---\n${SKILL_TEXT}\n`,
    "spans/AGENTS.md": `${INSTRUCTION_TEXT}\n`,
    "spans/first.txt": "the first span\n",
  };
  for (const { kind, turn, text } of WORK_FACTS)
    if (kind === "FINDING") files[`notes/${turn}.txt`] = `${fill(`${turn}`, 1_600)}${text}\n${fill(`${turn}b`, 1_600)}`;
  return files;
}

/** Texts that each request after a compaction must contain, by what they show. */
export type StatePresence = Record<"todos" | "files" | "command" | "skill" | "instructions" | "lastFile", boolean>;

interface TaskEvent {
  readonly turn: number;
  readonly state: StatePresence;
}

interface Need {
  readonly fact: Fact;
  readonly isKnown: boolean;
  /** Numbers, from 1, of the compactions between the fact and the step that needs it. */
  readonly compactions: readonly number[];
}

/** Path of the file that a step writes with a fact. The last step of a prompt writes none. */
export function getAnswerPath({ kind, turn }: Fact): string {
  return `answers/${kind}-${turn}.txt`;
}

/** The model of the task, for `startFakeModelServer`. */
export class LongTaskModel {
  readonly needs: Need[] = [];
  /** The first request after each compaction. */
  readonly compactions: TaskEvent[] = [];
  /** Requests whose tools or system prompt differ from those of the first request. */
  readonly changedPrefixes: number[] = [];
  readonly promptBytes: number[] = [];
  summaryCount = 0;
  #turn = 0;
  #prefix: string | undefined;
  #messages: readonly string[] = [];
  #commandId: string | undefined;
  #lastChange: { path: string; marker: string } | undefined;
  readonly #changedPaths = new Set<string>();
  readonly #doneTodos = new Set<number>();
  readonly #options: { hasSkills: boolean; hasBackground: boolean };

  /** `hasSkills`, `hasBackground`: whether the agent has these tools, which early versions had not. */
  constructor(options = { hasSkills: true, hasBackground: true }) {
    this.#options = options;
  }

  get turn(): number {
    return this.#turn;
  }

  /** Needs of facts from before at least one compaction. */
  get crossedNeeds(): readonly Need[] {
    return this.needs.filter(({ compactions }) => compactions.length > 0);
  }

  /** Answers a request without tools. A summary lists the marked lines of the transcript, under its limits. */
  answerToolFree({ body }: FakeRequest): FakeStep {
    const { messages, max_tokens, max_completion_tokens } = body as {
      messages: { role: string; content: unknown }[];
      max_tokens?: number;
      max_completion_tokens?: number;
    };
    const [system = "", transcript = ""] = messages.map(({ content }) => toPlainText(content));
    if (!/^You write (notes|the notes)/.test(system)) return { say: [{ text: "A bridge" }] };
    this.summaryCount += 1;
    const lines =
      transcript.match(/(RULE|FINDING|DECISION|ERROR) \d+: item \d+ of the bridge has the value \S+/g) ?? [];
    const maxWords = Number(/may have (\d+) words/.exec(system)?.[1] ?? Infinity);
    // A token has about four characters.
    const maxCharacters = (max_tokens ?? max_completion_tokens ?? Infinity) * 4;
    let text = "Building a bridge. What was found and decided:";
    for (const line of new Set(lines)) {
      const longerText = `${text}\n- ${line}`;
      if (longerText.length > maxCharacters || longerText.split(/\s+/).length > maxWords) break;
      text = longerText;
    }
    return { say: [{ text }] };
  }

  /** Answers a request of the run with the next turn of the script. */
  answer({ body }: FakeRequest): FakeStep {
    this.#turn += 1;
    const { messages, tools } = body as { messages: { role: string; content: unknown }[]; tools: unknown };
    const text = JSON.stringify(messages);
    this.promptBytes.push(Buffer.byteLength(JSON.stringify(body)));
    this.#comparePrefix(messages, tools);
    this.#comparePreviousMessages(messages, text);
    this.#commandId ??= /\bbg-[0-9a-f]{6}\b/.exec(text)?.[0];
    const answers = FACTS.filter(({ needTurn }) => needTurn === this.#turn).flatMap((fact) => {
      const isKnown = text.includes(fact.value);
      const compactions = this.compactions.flatMap(({ turn }, i) => (turn > fact.turn ? [i + 1] : []));
      this.needs.push({ fact, isKnown, compactions });
      return isKnown ? [this.#write(getAnswerPath(fact), `${fact.value}\n`)] : [];
    });
    if (this.#turn % PROMPT_TURNS === 0) return { say: [{ text: `Part ${this.#turn / PROMPT_TURNS} is done.` }] };
    const fact = WORK_FACTS.find(({ turn }) => turn === this.#turn);
    const remark = fact?.kind === "DECISION" ? fact.text : `Step ${this.#turn}.`;
    return { say: [{ text: remark }, { calls: [...answers, this.#createCall(fact)] }] };
  }

  /** Counts the needed facts from before a compaction, and those that the model knew, as `N of M`. */
  countFacts(compaction?: number): string {
    const needs = this.crossedNeeds.filter(
      ({ compactions }) => compaction === undefined || compactions.includes(compaction),
    );
    return `${needs.filter(({ isKnown }) => isKnown).length} of ${needs.length}`;
  }

  #createCall(fact: Fact | undefined): FakeCall {
    const turn = this.#turn;
    if (turn === 1) return this.#createTodos();
    if (turn === 2 && this.#options.hasSkills) return { name: "skill", arguments: { name: "rivets" } };
    if (turn === 3) return { name: "read", arguments: { path: "spans/first.txt" } };
    if (turn === 4 && this.#options.hasBackground)
      return { name: "bash", arguments: { command: "sleep 600", background: true } };
    if (fact?.kind === "ERROR") return { name: "bash", arguments: { command: `echo '${fact.text}'; exit 1` } };
    if (fact?.kind === "FINDING") return { name: "read", arguments: { path: `notes/${turn}.txt` } };
    if (turn % 40 === 20) {
      this.#doneTodos.add(this.#doneTodos.size);
      return this.#createTodos();
    }
    const path = `parts/part-${turn % CHANGED_FILES}.txt`;
    const marker = `content-of-${turn}-${hash(`${turn}`)}`;
    this.#lastChange = { path, marker };
    return this.#write(path, `${marker}\n${fill(path, 1_800)}`);
  }

  #write(path: string, content: string): FakeCall {
    this.#changedPaths.add(path);
    return { name: "write", arguments: { path, content } };
  }

  #createTodos(): FakeCall {
    const todos = TODOS.map((content, i) => ({ content, status: this.#doneTodos.has(i) ? "completed" : "pending" }));
    return { name: "todowrite", arguments: { todos } };
  }

  /** The system prompt and the tools are the same in all requests. */
  #comparePrefix([system]: readonly unknown[], tools: unknown): void {
    const prefix = JSON.stringify([system, tools]);
    this.#prefix ??= prefix;
    if (prefix !== this.#prefix) this.changedPrefixes.push(this.#turn);
  }

  /** A request that does not begin with all messages of the previous request is the first after a compaction. */
  #comparePreviousMessages(messages: readonly unknown[], text: string): void {
    const newMessages = messages.map((message) => JSON.stringify(message));
    if (!this.#messages.every((message, i) => message === newMessages[i]))
      this.compactions.push({ turn: this.#turn, state: this.#findState(text) });
    this.#messages = newMessages;
  }

  #findState(text: string): StatePresence {
    const todos = TODOS.map((content, i) => `${this.#doneTodos.has(i) ? "[x]" : "[ ]"} ${content}`);
    const includes = (part: string | undefined) => part !== undefined && text.includes(part);
    return {
      todos: todos.every(includes),
      files: [...this.#changedPaths].every((path) => includes(`- ${path}`)),
      command: includes(this.#commandId),
      skill: includes(SKILL_TEXT),
      instructions: includes(INSTRUCTION_TEXT),
      lastFile: includes(this.#lastChange?.marker),
    };
  }
}

function toPlainText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as { text?: string }[]).map(({ text = "" }) => text).join("");
}
