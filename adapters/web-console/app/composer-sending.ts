import { effect, type ReadonlySignal } from "@preact/signals";
import { ApiError } from "gantry/client";
import type { WatchedSession } from "./state/watched-session.js";

/** Sends the text to the run. If the run has ended in the meantime, sends it as the next prompt. */
export async function steerOrPrompt(
  session: WatchedSession,
  text: string,
  sendPrompt: () => Promise<void>,
): Promise<void> {
  try {
    await session.outbox.steer(text);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "no_run") throw error;
    await sendPrompt();
  }
}

/** The error as a message for the user. */
export function toFailureText(error: unknown): string {
  if (error instanceof ApiError && error.status === 413)
    return "The files exceed the request limit of the server (server.max_body_bytes). Nothing was sent.";
  return `Not sent: ${error instanceof Error ? error.message : String(error)}`;
}

/** Resolves when the condition is true. */
export function waitUntilTrue(condition: ReadonlySignal<boolean>): Promise<void> {
  return new Promise((resolve) => {
    const dispose = effect(() => {
      if (condition.value) queueMicrotask(() => dispose());
      if (condition.value) resolve();
    });
  });
}

/** The label of the button that sends a prompt. */
export function getSendLabel(isSteer: boolean, isBusy: boolean): string {
  return isSteer ? "Instruct the run" : isBusy ? "Add to queue" : "Send";
}
