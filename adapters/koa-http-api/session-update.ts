import { SessionNotFoundError, type Session } from "gantry";
import type { Context } from "koa";
import { createDisconnectController, type ApiDependencies } from "./api.js";
import { Fields, createFieldError } from "./body.js";
import { requirePersonForMode } from "./person.js";
import { SessionChange } from "./request-shapes.js";

/** Maximum length of a title, as for generated titles. */
const MAX_TITLE_CHARACTERS = 50;

/**
 * `PATCH /api/sessions/{id}`: changes title, mode, model, reasoning effort, `archived` or `shared`. Returns the chain's first session
 * unchanged if no field is set. Rejects with `HttpError`, or like `Sessions.update`.
 */
export async function updateSession(
  ctx: Context,
  id: string,
  body: Record<string, unknown>,
  dependencies: ApiDependencies,
): Promise<Session> {
  const { agent } = dependencies;
  const session = await agent.sessions.get(id);
  if (!session) throw new SessionNotFoundError(id);
  const fields = new Fields(SessionChange, body);
  const title = fields.get("title");
  if (title !== undefined && !isTitle(title)) throw createFieldError("title");
  const effort = fields.get("reasoning_effort");
  const mode = fields.getText("mode");
  const archived = fields.get("archived");
  const shared = fields.get("shared");
  await requirePersonForMode(ctx, dependencies, { mode, sessionId: id });
  const [provider, model] = [fields.getText("provider"), fields.getText("model")];
  if ((provider === undefined) !== (model === undefined))
    throw createFieldError(provider === undefined ? "provider" : "model");
  // Reject an unavailable model now, not at the start of the next run.
  if (provider !== undefined && model !== undefined)
    await agent.models.resolve(
      { provider, model },
      // With both names, `resolve` uses neither a stored nor a recent model.
      { provider: "", model: "" },
      () => Promise.resolve(undefined),
      createDisconnectController(ctx).signal,
    );
  const changes = {
    ...(title !== undefined && { title: title.trim() }),
    ...(provider !== undefined && model !== undefined && { provider, model }),
    ...(effort !== undefined && { reasoningEffort: effort }),
    ...(mode !== undefined && { mode }),
    ...(archived !== undefined && { archived }),
    ...(shared !== undefined && { shared }),
  };
  if (Object.keys(changes).length > 0) return agent.sessions.update(id, changes);
  return (await agent.sessions.get(session.chain.root)) ?? session;
}

/** Whether a title is one visible line. The characters are counted without spaces at both ends. */
function isTitle(value: string): boolean {
  if (/[\p{Cc}\p{Surrogate}]/u.test(value)) return false;
  const { length } = [...value.trim()];
  return length > 0 && length <= MAX_TITLE_CHARACTERS;
}
