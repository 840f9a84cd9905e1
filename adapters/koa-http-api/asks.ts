import { AskNotFoundError, hasCode, SessionNotFoundError, type Agent, type Ask as AskRecord } from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import type { BodyReader } from "./body.js";
import { HttpError } from "./errors.js";
import { Fields, invalidField } from "./fields.js";
import { pathId } from "./path-id.js";
import { requirePerson } from "./person.js";
import { MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters } from "./query.js";
import { AnswerRequest, type Ask, type AskClosed, type AskList } from "./shapes.js";
import { wireAsk } from "./wire-live.js";

type Parts = Pick<ApiParts, "agent">;

/** Time for which a polling client counts as connected, in ms. Browsers limit hidden pages to one poll a minute. */
const POLLING_CLIENT_MS = 90_000;

/** Clients of an agent that hold no stream and poll its questions to answer them. */
export class PollingClients {
  readonly #agent: Agent;
  #until = 0;

  constructor(agent: Agent) {
    this.#agent = agent;
    agent.addResponder(() => performance.now() < this.#until);
  }

  polled(): void {
    this.#until = performance.now() + POLLING_CLIENT_MS;
    // Releasing at once still starts the agent's own grace period, which may be longer.
    this.#agent.addResponder()();
  }
}

/** `GET /api/asks`. */
export async function listAsks(ctx: Context, { agent }: Parts, polling: PollingClients): Promise<void> {
  const query = new QueryParameters(ctx);
  if (query.oneOf("can_answer", ["true", "false"]) === "true") polling.polled();
  const before = query.text("before");
  const place = before === undefined ? undefined : await agent.asks.get(before);
  if (before !== undefined && !place) throw new HttpError(400, "invalid query parameter: before", {}, "invalid_query");
  const of = query.text("session_id") || undefined;
  const session = of === undefined ? undefined : await agent.sessions.get(of);
  if (of !== undefined && !session) throw new SessionNotFoundError(of);
  const asks = await agent.asks.list({
    limit: Math.min(query.integer("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE),
    sessionId: session?.id,
    open: query.oneOf("state", ["open", "all"]) !== "all",
    before: place,
  });
  send<typeof AskList>(ctx, { asks: asks.map(wireAsk) });
}

/** `GET /api/asks/{id}`. */
export async function showAsk(ctx: Context, parts: Parts): Promise<void> {
  send<typeof Ask>(ctx, wireAsk(await requireAsk(ctx, parts)));
}

/** `POST /api/asks/{id}`. */
export async function answerAsk(ctx: Context, parts: ApiParts, bodies: BodyReader): Promise<void> {
  const { id } = await requireAsk(ctx, parts);
  requirePerson(ctx, parts);
  const fields = new Fields(AnswerRequest, await bodies.json(ctx));
  const reply = { choice: fields.text("choice") ?? "", text: fields.text("text") ?? "" };
  // With both fields it is ambiguous which one is the answer.
  if (reply.choice !== "" && reply.text !== "") throw invalidField("text");
  try {
    send<typeof Ask>(ctx, wireAsk(await parts.agent.asks.answer(id, reply, "http")));
  } catch (error) {
    if (!hasCode(error, "ask_closed")) throw error;
    // A late client receives the stored decision.
    send<typeof AskClosed>(ctx, { error: error.message, code: error.code, ask: wireAsk(error.ask) }, 409);
  }
}

async function requireAsk(ctx: Context, { agent }: Parts): Promise<AskRecord> {
  const id = pathId(ctx, AskNotFoundError);
  const ask = await agent.asks.get(id);
  if (!ask) throw new AskNotFoundError(id);
  return ask;
}
