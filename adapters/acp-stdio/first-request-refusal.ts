import type { Readable, Writable } from "node:stream";
import { ERROR_CODES, parseFrame, toErrorResponse, type RequestId } from "../acp-shared/index.js";
import { LineSplitter, type InputLine } from "./lines.js";

/** Maximum wait for the first request, in ms. A client that started this process sends a request at once. */
const FIRST_REQUEST_TIMEOUT_MS = 5_000;
const MAX_LINE_BYTES = 1024 * 1024;
const MAX_JSON_DEPTH = 64;

/**
 * Answers the first request with the reason why the agent could not start. Editors show this error. For a process that
 * exits without an answer, editors show only the exit code. Resolves when the answer is sent, or when no request
 * arrives in time. Never rejects.
 */
export async function refuseFirstRequest(
  reason: string,
  input: Readable & { isTTY?: boolean },
  output: Writable,
): Promise<void> {
  // A user at a terminal reads the reason on standard error.
  if (input.isTTY === true) return;
  output.on("error", () => undefined);
  const id = await waitForFirstRequest(input);
  if (id === undefined) return;
  const answer = `${JSON.stringify(toErrorResponse(ERROR_CODES.internal, reason, id))}\n`;
  await new Promise<void>((resolve) => output.write(answer, () => resolve()));
}

/** The id of the first request; undefined if no request arrives in time. */
function waitForFirstRequest(input: Readable): Promise<RequestId | undefined> {
  const lineSplitter = new LineSplitter(MAX_LINE_BYTES);
  return new Promise((resolve) => {
    const handleLines = (newLines: Iterable<InputLine>) => {
      for (const line of newLines) {
        if (!("text" in line)) continue;
        const frame = parseFrame(line.text, MAX_JSON_DEPTH);
        if (frame.kind === "request") return finish(frame.id);
      }
    };
    const onData = (chunk: Buffer | string) =>
      handleLines(lineSplitter.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk));
    const onEnd = () => {
      handleLines(lineSplitter.end());
      finish(undefined);
    };
    const finish = (id: RequestId | undefined) => {
      clearTimeout(timer);
      input.off("data", onData).off("end", onEnd).off("error", onEnd).off("close", onEnd);
      input.on("error", () => undefined);
      input.pause();
      resolve(id);
    };
    const timer = setTimeout(() => finish(undefined), FIRST_REQUEST_TIMEOUT_MS);
    input.on("data", onData).on("end", onEnd).on("error", onEnd).on("close", onEnd);
    if (input.readableEnded || input.destroyed) onEnd();
    else input.resume();
  });
}
