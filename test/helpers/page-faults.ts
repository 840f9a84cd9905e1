import type { ApiRun } from "gantry/client";
import type { CheckedPage } from "./http-watcher.js";

/** The store and its runs, for the check of a page. */
export interface ExpectedPage {
  /** JSON of the stored messages. */
  storedText: string;
  runs: readonly ApiRun[];
  /** Runs that are not the newest. */
  oldRunIds: ReadonlySet<string>;
  /** Whether the store has lost writes, after which watchers get messages again. */
  losesWrites: boolean;
}

/** Description of a page's faults; "" if it has none. */
export function describePageFault(
  page: CheckedPage,
  { storedText, runs, oldRunIds, losesWrites }: ExpectedPage,
): string {
  const receivedText = JSON.stringify({ messages: page.messages });
  if (receivedText !== storedText)
    return `differs from the stored messages: ${describeDifference(receivedText, storedText)}`;
  const { id, state } = ((page.state ?? {}) as { run?: ApiRun }).run ?? { id: "none", state: "" };
  if (oldRunIds.has(id)) return `has the old run ${id} as the newest`;
  const storedState = runs.find((run) => run.id === id)?.state;
  if (storedState !== state) return `has the run ${id} as ${state}, which is ${storedState}`;
  const faults = [...page.faults, ...(losesWrites ? [] : page.stateFaults)];
  if (faults.length > 0) return `received ${faults.join("; ").slice(0, 2_000)}`;
  return page.repeatedMessages > 0 && !losesWrites ? `received ${page.repeatedMessages} messages twice` : "";
}

/** Position where two texts differ, with their contents around it. */
function describeDifference(actualText: string, expectedText: string): string {
  let offset = 0;
  while (offset < actualText.length && actualText[offset] === expectedText[offset]) offset += 1;
  const excerpt = (text: string) => text.slice(Math.max(0, offset - 200), offset + 300);
  return `at ${offset} of ${actualText.length} and ${expectedText.length}\n${excerpt(actualText)}\nand not\n${excerpt(expectedText)}`;
}
