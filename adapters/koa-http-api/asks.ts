import { AskNotFoundError, hasCode, SessionNotFoundError, type Agent, type Ask as AskRecord } from "gantry";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { type BodyReader, Fields, createFieldError } from "./body.js";
import { HttpError } from "./errors.js";
import { requirePerson } from "./person.js";
import { MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters, readPathId } from "./query.js";
import { AnswerRequest } from "./request-shapes.js";
import type { Ask, AskClosed, AskList } from "./shapes.js";
import { toWireAsk } from "./wire-live.js";

type AskDependencies = Pick<ApiDependencies, "agent">;

/** Time for which a polling client counts as connected, in ms. Browsers limit hidden pages to one poll a minute. */
const POLLING_CLIENT_TIMEOUT_MS = 90_000;

/**
 * Clients that poll the agent's questions instead of watching a stream. After a poll they count as connected for
 * `POLLING_CLIENT_TIMEOUT_MS`.
 */
export class PollingClients {
  readonly #agent: Agent;
  #connectedUntilMs = 0;

  constructor(agent: Agent) {
    this.#agent = agent;
    agent.addResponder(() => performance.now() < this.#connectedUntilMs);
  }

  recordPoll(): void {
    this.#connectedUntilMs = performance.now() + POLLING_CLIENT_TIMEOUT_MS;
    // Add and remove a responder: the removal starts the agent's own grace period, which may be longer.
    this.#agent.addResponder()();
  }
}

/** `GET /api/asks`. */
export async function listAsks(
  ctx: Context,
  { agent }: AskDependencies,
  pollingClients: PollingClients,
): Promise<void> {
  const query = new QueryParameters(ctx);
  if (query.getOneOf("can_answer", ["true", "false"]) === "true") pollingClients.recordPoll();
  const beforeId = query.getText("before");
  const beforeAsk = beforeId === undefined ? undefined : await agent.asks.get(beforeId);
  if (beforeId !== undefined && !beforeAsk)
    throw new HttpError(400, "invalid query parameter: before", {}, "invalid_query");
  const sessionId = query.getText("session_id") || undefined;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  if (sessionId !== undefined && !session) throw new SessionNotFoundError(sessionId);
  const asks = await agent.asks.list({
    limit: Math.min(query.getInteger("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE),
    sessionId: session?.id,
    open: query.getOneOf("state", ["open", "all"]) !== "all",
    before: beforeAsk,
  });
  sendJson<typeof AskList>(ctx, { asks: asks.map(toWireAsk) });
}

/** `GET /api/asks/{id}`. */
export async function showAsk(ctx: Context, dependencies: AskDependencies): Promise<void> {
  sendJson<typeof Ask>(ctx, toWireAsk(await requireAsk(ctx, dependencies)));
}

/** `POST /api/asks/{id}`. */
export async function answerAsk(ctx: Context, dependencies: ApiDependencies, bodyReader: BodyReader): Promise<void> {
  const { id } = await requireAsk(ctx, dependencies);
  requirePerson(ctx, dependencies);
  const fields = new Fields(AnswerRequest, await bodyReader.readJson(ctx));
  const reply = { choice: fields.getText("choice") ?? "", text: fields.getText("text") ?? "" };
  // A reply is a choice or a text: with both, the answer would be ambiguous.
  if (reply.choice !== "" && reply.text !== "") throw createFieldError("text");
  try {
    sendJson<typeof Ask>(ctx, toWireAsk(await dependencies.agent.asks.answer(id, reply, "http")));
  } catch (error) {
    if (!hasCode(error, "ask_closed")) throw error;
    // A late client receives the stored decision.
    sendJson<typeof AskClosed>(ctx, { error: error.message, code: error.code, ask: toWireAsk(error.ask) }, 409);
  }
}

async function requireAsk(ctx: Context, { agent }: AskDependencies): Promise<AskRecord> {
  const id = readPathId(ctx, AskNotFoundError);
  const ask = await agent.asks.get(id);
  if (!ask) throw new AskNotFoundError(id);
  return ask;
}
