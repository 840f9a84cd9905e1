import type { Agent } from "gantry";
import { RpcError, toParamsError } from "./errors.js";
import { PROVIDER_KEY_METHOD, type AuthMethod } from "./options.js";
import { readString } from "./params.js";
import { ERROR_CODES } from "./wire.js";

/** Name of the provider that answers without a language model. */
const OFFLINE_PROVIDER = "offline";

/** The error for a request of a client that has logged out. */
export function createAuthRequiredError(): RpcError {
  return new RpcError(ERROR_CODES.authRequired, "authentication required: this client has logged out");
}

/**
 * `authenticate`: checks that gantry has a language model. The credentials belong to the operator, so the client sends
 * none. Rejects with `RpcError` for an unknown method, or without a provider.
 */
export async function authenticate(
  params: Readonly<Record<string, unknown>>,
  authMethods: readonly AuthMethod[],
  agent: Agent,
  signal: AbortSignal,
): Promise<unknown> {
  const methodId = readString(params, "methodId");
  if (!authMethods.some(({ id }) => id === methodId)) throw toParamsError("methodId", "the id of one of authMethods");
  const hasModel = (models: readonly { provider: string }[]) =>
    models.some(({ provider }) => provider !== OFFLINE_PROVIDER);
  if (!hasModel((await agent.models.listKnown()).models) && !hasModel(await agent.models.list(signal)))
    throw new RpcError(ERROR_CODES.authRequired, `no language model is available. ${PROVIDER_KEY_METHOD.description}`);
  return {};
}
