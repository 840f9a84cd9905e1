import type { ApiRun } from "gantry/client";
import type { CheckedPage } from "./http-watcher.js";

/**
 * Description of a page's faults; "" if it has none. `storedText`: JSON of the stored messages. `losesWrites`: whether
 * the store has lost writes, after which watchers get messages again.
 */
export function describePageFault(
  page: CheckedPage,
  storedText: string,
  runs: readonly ApiRun[],
  losesWrites: boolean,
): string {
  const receivedText = JSON.stringify({ messages: page.messages });
  if (receivedText !== storedText)
    return `differs from the stored messages: ${describeDifference(receivedText, storedText)}`;
  const { id, state } = ((page.state ?? {}) as { run?: ApiRun }).run ?? { id: "none", state: "" };
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
