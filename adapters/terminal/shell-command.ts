import type { ApiShellResult } from "gantry/client";
import type { TerminalStore } from "./store.js";
import type { TranscriptNotice } from "./transcript.js";

/** Maximum characters of the output that are kept while the command runs. */
const MAX_LIVE_CHARACTERS = 100_000;

/**
 * Runs `!COMMAND`, which the model reads with the next prompt, or `!!COMMAND`, which it does not. Rejects if the command
 * cannot start. A stopped command leaves a notice.
 */
export async function runShellLine(store: TerminalStore, line: string): Promise<void> {
  const isShared = !line.startsWith("!!");
  const command = line.slice(isShared ? 1 : 2).trim();
  const { conversation, options } = store;
  const { id } = conversation;
  if (command === "") return store.showNotice("!COMMAND runs a shell command; !!COMMAND hides it from the model.");
  if (id === undefined) throw new Error("a command needs a session; send a prompt first");
  if (store.shell) throw new Error("another command is running; Ctrl+C stops it");
  const controller = new AbortController();
  const liveNotice = new LiveNotice(store, `! ${command}${isShared ? "" : " (not shown to the model)"}`);
  store.shell = { stop: () => controller.abort() };
  let output = "";
  liveNotice.show("", "running");
  try {
    const onOutput = (text: string) => {
      output = (output + text).slice(-MAX_LIVE_CHARACTERS);
      liveNotice.show(output, "running");
    };
    const result = await options.client.sessions.shell(
      id,
      { command, share: isShared },
      { signal: controller.signal, onOutput },
    );
    // A shared command is a message, which shows the output.
    if (result.message_id !== null) liveNotice.remove();
    else liveNotice.show(`${result.output}${describeEnd(result)}`, "ended");
  } catch (error) {
    if (controller.signal.aborted) return liveNotice.show(`${output}\n[stopped]`, "ended");
    liveNotice.remove();
    throw error;
  } finally {
    store.shell = undefined;
  }
}

function describeEnd({ exit_code: exitCode, timed_out: isTimedOut }: ApiShellResult): string {
  if (isTimedOut) return "\n[time limit reached]";
  return exitCode === 0 ? "" : `\n[exit code ${exitCode ?? "unknown"}]`;
}

/** A notice whose output grows. It belongs to the conversation that was shown at the start. */
class LiveNotice {
  readonly #store: TerminalStore;
  readonly #conversation: TerminalStore["conversation"];
  readonly #title: string;
  readonly #afterSeq: number;
  #notice: TranscriptNotice | undefined;

  constructor(store: TerminalStore, title: string) {
    this.#store = store;
    this.#conversation = store.conversation;
    this.#title = title;
    this.#afterSeq = store.conversation.mirror.messages.at(-1)?.seq ?? 0;
  }

  show(text: string, state: "running" | "ended"): void {
    this.#replace({
      afterSeq: this.#afterSeq,
      lines: [this.#title],
      isError: false,
      output: { text, isFinished: state === "ended" },
    });
  }

  remove(): void {
    this.#replace(undefined);
  }

  #replace(notice: TranscriptNotice | undefined): void {
    const store = this.#store;
    if (store.conversation !== this.#conversation) return;
    const { notices } = store;
    const index = this.#notice ? notices.indexOf(this.#notice) : -1;
    const position = index === -1 ? notices.length : index;
    store.notices = [...notices.slice(0, position), ...(notice ? [notice] : []), ...notices.slice(position + 1)];
    this.#notice = notice;
    store.reportChange();
  }
}
