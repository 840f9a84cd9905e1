import type { ApiShellResult, Failure, ShellRequest } from "../shapes.js";
import type { ServerConnection } from "./connection.js";
import { createDisconnectedError, toApiError } from "./errors.js";

/** A person's shell command. */
export type ApiShellCommand = Omit<ShellRequest, "stream">;

/** Runs a command; with `onOutput` as a stream. Rejects with `ApiError` or the signal's reason. */
export async function runShellCommand(
  connection: ServerConnection,
  path: string,
  command: ApiShellCommand,
  signal: AbortSignal | undefined,
  onOutput: ((text: string) => void) | undefined,
): Promise<ApiShellResult> {
  const isResult = (result: ApiShellResult) => typeof result.output === "string";
  if (!onOutput)
    return (await connection.requestJson<ApiShellResult>(path, { method: "POST", body: command, signal }, isResult))
      .body;
  const response = await connection.sendRequest(path, { method: "POST", body: { ...command, stream: true }, signal });
  for await (const { type, data, comment } of connection.readEvents(response, signal)) {
    if (comment !== undefined) continue;
    if (type === "output") onOutput((data as { text: string }).text);
    else if (type === "done") return data as ApiShellResult;
    else if (type === "error") throw toApiError(500, data as Failure);
  }
  throw createDisconnectedError("the connection broke");
}
