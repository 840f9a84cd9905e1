import { hasCode, RunCancelledError, SessionNotFoundError, type UserCommand, type UserCommandResult } from "gantry";
import { getLogFields } from "gantry/http";
import type { Context } from "koa";
import { abortWith, createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import { Fields, type BodyReader } from "./body.js";
import { HttpError, isInternal, toRefusal } from "./errors.js";
import { requirePerson } from "./person.js";
import { ShellRequest } from "./work-shapes.js";
import type { Failure, ResponseBody, ShellOutputEvent, ShellResult } from "./shapes.js";
import { encodeFrame, SseStream } from "./sse.js";
import type { StreamLimiter } from "./stream-limiter.js";

/** `POST /api/sessions/{id}/shell`: runs a command of a person; one JSON response, or a stream with the output. */
export async function runShellCommand(
  ctx: Context,
  id: string,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
  streamLimiter: StreamLimiter,
): Promise<void> {
  const { agent, options, shutdownSignal } = dependencies;
  if (!options.shell) throw new HttpError(403, "commands are disabled by server.shell", {}, "commands_disabled");
  if (!(await agent.sessions.get(id))) throw new SessionNotFoundError(id);
  requirePerson(ctx, dependencies);
  const controller = createDisconnectController(ctx, () => new RunCancelledError());
  const removeListener = abortWith(controller, shutdownSignal);
  try {
    const fields = new Fields(ShellRequest, await bodyReader.readJson(ctx));
    const command: UserCommand = {
      command: fields.get("command") ?? "",
      share: fields.get("share"),
      timeout: fields.get("timeout"),
      signal: controller.signal,
    };
    if (fields.get("stream") === true) {
      streamLimiter.reserveSlot(ctx, "run");
      await streamCommand(ctx, (onOutput) => agent.sessions.runCommand(id, { ...command, onOutput }), dependencies);
    } else sendJson<typeof ShellResult>(ctx, toWireResult(await agent.sessions.runCommand(id, command)));
  } catch (error) {
    throw hasCode(error, "tool") ? toHttpError(error) : error;
  } finally {
    removeListener();
  }
}

/** Sends the output while the command runs. The stream opens with the first output or the result. */
async function streamCommand(
  ctx: Context,
  run: (onOutput: (text: string) => void) => Promise<UserCommandResult>,
  { options, logger }: ApiDependencies,
): Promise<void> {
  let stream: SseStream | undefined;
  const openStream = (): SseStream => {
    ctx.respond = false;
    return (stream ??= new SseStream(ctx.res, options.heartbeatMs));
  };
  let isReaderBehind = false;
  const sendOutput = (text: string): void => {
    // A slow reader misses output; the result has it.
    if (isReaderBehind) return;
    const event: ResponseBody<typeof ShellOutputEvent> = { text };
    const readerReady = openStream().sendFrame(encodeFrame("output", event));
    if (!readerReady) return;
    isReaderBehind = true;
    void readerReady.then(() => (isReaderBehind = false));
  };
  try {
    const result = toWireResult(await run(sendOutput));
    await openStream().sendFrame(encodeFrame("done", result));
  } catch (error) {
    if (!stream) throw error;
    const refusal = toHttpError(error);
    if (isInternal(refusal)) logger.error("a command failed", { ...getLogFields(ctx.req), error });
    const failure: ResponseBody<typeof Failure> = { error: refusal.message, code: refusal.code };
    void stream.sendFrame(encodeFrame("error", failure));
  }
  stream?.close();
}

/** The message of a `ToolError` says why the command could not start. */
function toHttpError(error: unknown): HttpError {
  if (hasCode(error, "tool")) return new HttpError(500, error.message, {}, "command_not_started");
  const { status, message, code, headers } = toRefusal(error);
  return new HttpError(status, message, headers, code);
}

function toWireResult({
  exitCode,
  output,
  truncated,
  timedOut,
  messageId,
}: UserCommandResult): ResponseBody<typeof ShellResult> {
  return { exit_code: exitCode, output, truncated, timed_out: timedOut, message_id: messageId };
}
