import { randomUUID } from "node:crypto";
import type { FakeRequest, FakeStep } from "./fake-model-server.js";
import { pause, until } from "./lab.js";

/** Options of a load. */
export interface LoadOptions {
  /** Origin that clients use. */
  url: () => string;
  clients: number;
  turns: number;
  random: () => number;
  /**
   * Time after which a client gives up a turn, in ms. Default: ten minutes, which only a turn that never recovers
   * reaches.
   */
  timeoutMs?: number;
  /** Called after each answered turn with the number of such turns. */
  onTurn?: (turns: number) => void;
}

/** A turn whose answer a client has received. */
interface Acknowledged {
  text: string;
  runId: string;
}

interface Client {
  name: string;
  sessionId: string;
  turns: Acknowledged[];
}

/** Results of a load. */
export interface LoadReport {
  clients: readonly Client[];
  turns: number;
  /** Turns that needed more than one request. */
  healed: number;
  retries: number;
  /** Number of refused and interrupted requests, by status and code. */
  errors: ReadonlyMap<string, number>;
  /** Times from the first failure of a turn to its answer, in ms, ascending. */
  healingMs: number[];
  /** Descriptions of failures that no retry fixed. */
  faults: string[];
}

/** Prompts of a load; the model answers the last one. */
const PROMPT = /turn (\S+) (plain|tool)/;

/**
 * The model of a load. Its answer names the turn, after a tool call if the prompt demands one. `pace`: pause between
 * pieces, in ms.
 */
export function loadModel(pace: number): (request: FakeRequest) => FakeStep {
  return ({ body }) => {
    const { messages } = body as { messages: { role: string; content: unknown }[] };
    const last = messages.findLast(({ role }) => role === "user");
    const [, name = "", kind = ""] = PROMPT.exec(JSON.stringify(last?.content ?? "")) ?? [];
    if (kind === "tool" && messages.at(-1)?.role !== "tool")
      return { say: [{ text: "Look. " }, { call: { name: "glob", arguments: { pattern: `${name}*` } } }], pace };
    return { say: [{ text: answerTo(name).match(/.{1,8}/gs) ?? [] }], pace };
  };
}

function answerTo(name: string): string {
  return `The answer to ${name} is ${name.split("").reverse().join("")}.`;
}

/** Result of a request: its answer, or the reason for a retry. */
type Outcome = { answer: string; sessionId: string; runId: string } | { again: string; waitMs: number };

/** Statuses after which a client retries; any other error is a fault. */
const AGAIN: ReadonlySet<number> = new Set([409, 421, 429, 502, 503, 504]);

/** Runs clients that each hold a conversation. They retry refused and interrupted requests with the same key. */
export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const { clients, turns, random, timeoutMs = 600_000, onTurn } = options;
  const errors = new Map<string, number>();
  const report: LoadReport = {
    clients: Array.from({ length: clients }, (_, n) => ({ name: `c${n}`, sessionId: "", turns: [] })),
    turns: 0,
    healed: 0,
    retries: 0,
    errors,
    healingMs: [],
    faults: [],
  };
  const turn = async (client: Client, name: string): Promise<void> => {
    const body = {
      message: `turn ${name} ${random() < 0.3 ? "tool" : "plain"}`,
      ...(client.sessionId !== "" && { session_id: client.sessionId }),
      stream: random() < 0.5,
    };
    const key = randomUUID();
    let failedAt = 0;
    for (;;) {
      const outcome = await request(options.url(), body, key);
      if ("answer" in outcome) {
        if (outcome.answer !== answerTo(name) && outcome.answer !== `Look. ${answerTo(name)}`)
          report.faults.push(`${name} was answered with ${JSON.stringify(outcome.answer)}`);
        client.sessionId = outcome.sessionId;
        client.turns.push({ text: answerTo(name), runId: outcome.runId });
        report.turns += 1;
        if (failedAt > 0) {
          report.healed += 1;
          report.healingMs.push(Date.now() - failedAt);
        }
        onTurn?.(report.turns);
        return;
      }
      errors.set(outcome.again, (errors.get(outcome.again) ?? 0) + 1);
      if (outcome.waitMs < 0 || (failedAt > 0 && Date.now() - failedAt > timeoutMs)) {
        report.faults.push(`${name}: ${outcome.again}`);
        return;
      }
      failedAt ||= Date.now();
      report.retries += 1;
      // Waits as long as the response demands.
      await pause(outcome.waitMs);
    }
  };
  const conversation = async (client: Client): Promise<void> => {
    for (let n = 0; n < turns; n += 1) await turn(client, `${client.name}.${n}`);
  };
  await Promise.all(report.clients.map(conversation));
  report.healingMs.sort((a, b) => a - b);
  return report;
}

async function request(url: string, body: { stream: boolean }, key: string): Promise<Outcome> {
  let response: Response;
  try {
    const headers = { "idempotency-key": key };
    response = await fetch(`${url}/api/run`, { method: "POST", headers, body: JSON.stringify(body) });
    const names = {
      sessionId: response.headers.get("x-session-id") ?? "",
      runId: response.headers.get("x-run-id") ?? "",
    };
    const text = await response.text();
    if (response.status !== 200) {
      const { code = "", error = "" } = parsed(text);
      const after = Number(response.headers.get("retry-after") ?? "0.1");
      const waitMs = AGAIN.has(response.status) ? after * 1000 : -1;
      return { again: `${response.status} ${code || error}`, waitMs };
    }
    if (!body.stream) return { ...names, answer: String(parsed(text)["output"]) };
    const events = text.split("\n\n").map((block) => /^event: (.*)\ndata: (.*)$/.exec(block));
    const last = events.findLast((event) => event !== null);
    const payload = parsed(last?.[2] ?? "{}");
    if (last?.[1] === "error") {
      const isOver = ["run_interrupted", "shutting_down", "session_busy", "store_unavailable"].includes(
        String(payload["code"]),
      );
      return { again: `stream ${payload["code"] ?? payload["error"]}`, waitMs: isOver ? 100 : -1 };
    }
    if (last?.[1] !== "done") return { again: "stream broke off", waitMs: 100 };
    const tokens = events.map((event) => parsed(event?.[2] ?? "{}")).filter(({ type }) => type === "token");
    return { ...names, answer: tokens.map(({ content = "" }) => String(content)).join("") };
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } };
    return { again: `connection ${cause?.code ?? (error as Error).message}`, waitMs: 100 };
  }
}

/** Reads a path; retries while its store is unavailable. */
async function read<T>(url: string): Promise<T> {
  let status = 503;
  let text = "";
  await until(async () => {
    const answer = await fetch(url);
    [status, text] = [answer.status, await answer.text()];
    return status !== 503;
  });
  if (status !== 200) throw new Error(`${url}: ${status} ${text}`);
  return JSON.parse(text) as T;
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

interface Said {
  role: string;
  content: unknown;
  finished?: false;
  tool_call_id: string;
  tool_calls: { id: string }[];
}

/**
 * Compares the stored sessions of a load with the answers that its clients received. Resolves with descriptions of
 * faults, and with counts of prompts, incomplete messages and interrupted runs.
 */
export async function checkLoad(
  url: string,
  { clients }: LoadReport,
): Promise<{ faults: string[]; prompts: number; halves: number; interrupted: number }> {
  const faults: string[] = [];
  const counts = { prompts: 0, halves: 0, interrupted: 0 };
  for (const { name, sessionId, turns } of clients) {
    if (sessionId === "") continue;
    const { messages } = await read<{ messages: Said[] }>(`${url}/api/sessions/${sessionId}/messages`);
    faults.push(...historyFaults(messages).map((fault) => `${name}: ${fault}`));
    const finishedAnswers = messages.filter(({ role, finished }) => role === "assistant" && finished !== false);
    const places = turns.map(({ text }) =>
      finishedAnswers.flatMap(({ content }, at) => (content === text ? [at] : [])),
    );
    for (const [n, positions] of places.entries())
      if (positions.length !== 1) faults.push(`${name}: turn ${n} is there ${positions.length} times`);
    const order = places.flat();
    if (order.some((at, n) => at < (order[n - 1] ?? -1))) faults.push(`${name}: turns out of order`);
    counts.prompts += messages.filter(({ role }) => role === "user").length;
    counts.halves += messages.filter(({ finished }) => finished === false).length;
    for (let before = ""; ;) {
      const page = `${url}/api/runs?session_id=${sessionId}&size=100${before && `&before=${before}`}`;
      const { runs } = await read<{ runs: { id: string; state: string }[] }>(page);
      if (runs.length === 0) break;
      counts.interrupted += runs.filter(({ state }) => state !== "finished").length;
      for (const { id, state } of runs)
        if (turns.some(({ runId }) => runId === id) && state !== "finished") faults.push(`${name}: ${id} is ${state}`);
      before = runs.at(-1)!.id;
    }
  }
  return { faults, ...counts };
}

/**
 * Faults of a history that a model provider would reject: results without calls, calls without results, answers without
 * prompts.
 */
export function historyFaults(messages: readonly Said[]): string[] {
  const faults: string[] = [];
  let open: string[] = [];
  for (const [at, { role, tool_calls: calls, tool_call_id: id }] of messages.entries()) {
    if (role === "tool") {
      if (!open.includes(id)) faults.push(`a result of no call at ${at}`);
      open = open.filter((callId) => callId !== id);
      continue;
    }
    if (open.length > 0) faults.push(`${open.length} calls without a result before ${at}`);
    open = role === "assistant" ? calls.map((call) => call.id) : [];
    if (role === "assistant" && at === 0) faults.push("an answer before any prompt");
  }
  if (open.length > 0) faults.push(`${open.length} calls without a result at the end`);
  return faults;
}
