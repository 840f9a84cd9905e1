import { randomUUID } from "node:crypto";
import type { FakeRequest, FakeStep } from "./fake-model-server.js";
import { pause, waitUntil } from "./server-runs.js";

export interface LoadOptions {
  /** Returns the origin for the next request. */
  url: () => string;
  /** Number of concurrent clients. */
  clients: number;
  /** Number of turns of each client. */
  turns: number;
  /** Returns a number from 0 to 1. */
  random: () => number;
  /**
   * Time after which a client gives up a turn, in ms. Default: ten minutes, which only a turn that never recovers
   * reaches.
   */
  timeoutMs?: number;
  /** Called after each answered turn with the number of answered turns so far. */
  onTurn?: (turns: number) => void;
}

/** A turn whose answer a client has received. */
interface AcknowledgedTurn {
  text: string;
  runId: string;
}

interface LoadClient {
  name: string;
  sessionId: string;
  turns: AcknowledgedTurn[];
}

export interface LoadReport {
  clients: readonly LoadClient[];
  /** Number of answered turns. */
  turns: number;
  /** Turns that needed more than one request. */
  recoveredTurns: number;
  /** Number of repeated requests. */
  retries: number;
  /** Number of refused and interrupted requests, by status and code. */
  errors: ReadonlyMap<string, number>;
  /** Times from the first failure of a turn to its answer, in ms, ascending. */
  recoveryMs: number[];
  /** Descriptions of failures that no retry fixed. */
  faults: string[];
}

/** Format of the prompts. The model answers the last prompt of a request. */
const PROMPT_PATTERN = /turn (\S+) (plain|tool)/;

/**
 * Creates the scripted model of a load. Its answer names the turn, after a tool call if the prompt demands a call.
 * `pace`: pause between chunks, in ms.
 */
export function createLoadModel(pace: number): (request: FakeRequest) => FakeStep {
  return ({ body }) => {
    const { messages } = body as { messages: { role: string; content: unknown }[] };
    const lastPrompt = messages.findLast(({ role }) => role === "user");
    const [, name = "", kind = ""] = PROMPT_PATTERN.exec(JSON.stringify(lastPrompt?.content ?? "")) ?? [];
    if (kind === "tool" && messages.at(-1)?.role !== "tool")
      return { say: [{ text: "Look. " }, { call: { name: "glob", arguments: { pattern: `${name}*` } } }], pace };
    return { say: [{ text: createAnswer(name).match(/.{1,8}/gs) ?? [] }], pace };
  };
}

function createAnswer(name: string): string {
  return `The answer to ${name} is ${name.split("").reverse().join("")}.`;
}

/** Result of a request: the answer, or the reason for a retry. A negative `waitMs` means that no retry is useful. */
type Outcome = { answer: string; sessionId: string; runId: string } | { retryReason: string; waitMs: number };

/** Statuses after which a client retries; any other error is a fault. */
const RETRY_STATUSES: ReadonlySet<number> = new Set([409, 421, 429, 502, 503, 504]);

/**
 * Runs clients that each hold a conversation. They retry refused and interrupted requests with the same idempotency
 * key.
 */
export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const { clients, turns, random, timeoutMs = 600_000, onTurn } = options;
  const errors = new Map<string, number>();
  const report: LoadReport = {
    clients: Array.from({ length: clients }, (_, n) => ({ name: `c${n}`, sessionId: "", turns: [] })),
    turns: 0,
    recoveredTurns: 0,
    retries: 0,
    errors,
    recoveryMs: [],
    faults: [],
  };
  const runTurn = async (client: LoadClient, name: string): Promise<void> => {
    const body = {
      message: `turn ${name} ${random() < 0.3 ? "tool" : "plain"}`,
      ...(client.sessionId !== "" && { session_id: client.sessionId }),
      stream: random() < 0.5,
    };
    const key = randomUUID();
    let firstFailureMs = 0;
    for (;;) {
      const outcome = await requestTurn(options.url(), body, key);
      if ("answer" in outcome) {
        if (outcome.answer !== createAnswer(name) && outcome.answer !== `Look. ${createAnswer(name)}`)
          report.faults.push(`${name} was answered with ${JSON.stringify(outcome.answer)}`);
        client.sessionId = outcome.sessionId;
        client.turns.push({ text: createAnswer(name), runId: outcome.runId });
        report.turns += 1;
        if (firstFailureMs > 0) {
          report.recoveredTurns += 1;
          report.recoveryMs.push(Date.now() - firstFailureMs);
        }
        onTurn?.(report.turns);
        return;
      }
      errors.set(outcome.retryReason, (errors.get(outcome.retryReason) ?? 0) + 1);
      if (outcome.waitMs < 0 || (firstFailureMs > 0 && Date.now() - firstFailureMs > timeoutMs)) {
        report.faults.push(`${name}: ${outcome.retryReason}`);
        return;
      }
      firstFailureMs ||= Date.now();
      report.retries += 1;
      // Waits as long as the response demands.
      await pause(outcome.waitMs);
    }
  };
  const runConversation = async (client: LoadClient): Promise<void> => {
    for (let n = 0; n < turns; n += 1) await runTurn(client, `${client.name}.${n}`);
  };
  await Promise.all(report.clients.map(runConversation));
  report.recoveryMs.sort((a, b) => a - b);
  return report;
}

async function requestTurn(url: string, body: { stream: boolean }, key: string): Promise<Outcome> {
  let response: Response;
  try {
    const headers = { "idempotency-key": key };
    response = await fetch(`${url}/api/run`, { method: "POST", headers, body: JSON.stringify(body) });
    const responseIds = {
      sessionId: response.headers.get("x-session-id") ?? "",
      runId: response.headers.get("x-run-id") ?? "",
    };
    const text = await response.text();
    if (response.status !== 200) {
      const { code = "", error = "" } = parseObject(text);
      const retryAfterSeconds = Number(response.headers.get("retry-after") ?? "0.1");
      const waitMs = RETRY_STATUSES.has(response.status) ? retryAfterSeconds * 1000 : -1;
      return { retryReason: `${response.status} ${code || error}`, waitMs };
    }
    if (!body.stream) return { ...responseIds, answer: String(parseObject(text)["output"]) };
    const events = text.split("\n\n").map((block) => /^event: (.*)\ndata: (.*)$/.exec(block));
    const lastEvent = events.findLast((event) => event !== null);
    const payload = parseObject(lastEvent?.[2] ?? "{}");
    if (lastEvent?.[1] === "error") {
      const isRetryable = ["run_interrupted", "shutting_down", "session_busy", "store_unavailable"].includes(
        String(payload["code"]),
      );
      return { retryReason: `stream ${payload["code"] ?? payload["error"]}`, waitMs: isRetryable ? 100 : -1 };
    }
    if (lastEvent?.[1] !== "done") return { retryReason: "stream broke off", waitMs: 100 };
    const tokens = events.map((event) => parseObject(event?.[2] ?? "{}")).filter(({ type }) => type === "token");
    return { ...responseIds, answer: tokens.map(({ content = "" }) => String(content)).join("") };
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } };
    return { retryReason: `connection ${cause?.code ?? (error as Error).message}`, waitMs: 100 };
  }
}

/** Fetches JSON; retries while the response is 503. Rejects for other statuses than 200. */
async function fetchJson<T>(url: string): Promise<T> {
  let status = 503;
  let text = "";
  await waitUntil(async () => {
    const response = await fetch(url);
    [status, text] = [response.status, await response.text()];
    return status !== 503;
  });
  if (status !== 200) throw new Error(`${url}: ${status} ${text}`);
  return JSON.parse(text) as T;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

interface HistoryMessage {
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
): Promise<{ faults: string[]; prompts: number; incompleteMessages: number; interruptedRuns: number }> {
  const faults: string[] = [];
  const counts = { prompts: 0, incompleteMessages: 0, interruptedRuns: 0 };
  for (const { name, sessionId, turns } of clients) {
    if (sessionId === "") continue;
    const { messages } = await fetchJson<{ messages: HistoryMessage[] }>(`${url}/api/sessions/${sessionId}/messages`);
    faults.push(...findStoredHistoryFaults(messages).map((fault) => `${name}: ${fault}`));
    const finishedAnswers = messages.filter(({ role, finished }) => role === "assistant" && finished !== false);
    const answerIndexes = turns.map(({ text }) =>
      finishedAnswers.flatMap(({ content }, index) => (content === text ? [index] : [])),
    );
    for (const [n, positions] of answerIndexes.entries())
      if (positions.length !== 1) faults.push(`${name}: turn ${n} is stored ${positions.length} times`);
    const storedOrder = answerIndexes.flat();
    if (storedOrder.some((answerIndex, n) => answerIndex < (storedOrder[n - 1] ?? -1)))
      faults.push(`${name}: turns out of order`);
    counts.prompts += messages.filter(({ role }) => role === "user").length;
    counts.incompleteMessages += messages.filter(({ finished }) => finished === false).length;
    for (let lastRunId = ""; ;) {
      const pageUrl = `${url}/api/runs?session_id=${sessionId}&size=100${lastRunId && `&before=${lastRunId}`}`;
      const { runs } = await fetchJson<{ runs: { id: string; state: string }[] }>(pageUrl);
      if (runs.length === 0) break;
      counts.interruptedRuns += runs.filter(({ state }) => state !== "finished").length;
      for (const { id, state } of runs)
        if (turns.some(({ runId }) => runId === id) && state !== "finished") faults.push(`${name}: ${id} is ${state}`);
      lastRunId = runs.at(-1)!.id;
    }
  }
  return { faults, ...counts };
}

/**
 * Faults of a history that a model provider would reject: results without calls, calls without results, answers without
 * prompts.
 */
export function findStoredHistoryFaults(messages: readonly HistoryMessage[]): string[] {
  const faults: string[] = [];
  let openCallIds: string[] = [];
  for (const [index, { role, tool_calls: calls, tool_call_id: id }] of messages.entries()) {
    if (role === "tool") {
      if (!openCallIds.includes(id)) faults.push(`a result of no call at ${index}`);
      openCallIds = openCallIds.filter((callId) => callId !== id);
      continue;
    }
    if (openCallIds.length > 0) faults.push(`${openCallIds.length} calls without a result before ${index}`);
    openCallIds = role === "assistant" ? calls.map((call) => call.id) : [];
    if (role === "assistant" && index === 0) faults.push("an answer before any prompt");
  }
  if (openCallIds.length > 0) faults.push(`${openCallIds.length} calls without a result at the end`);
  return faults;
}
