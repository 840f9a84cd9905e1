import { InputError } from "../../ports/errors.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { MessageSearchPage, MessageSearchQuery } from "../../ports/session-queries.js";
import { scanMessages } from "./scan-messages.js";

const PAGE_SIZE = 50;
/** Maximum length of a query, in characters. */
const MAX_QUERY_CHARACTERS = 1000;
const ARCHIVE_FILTERS: readonly unknown[] = ["exclude", "include", "only", undefined];

/** A query of a client. Default `limit`: 50. */
export type SearchInput = { [Key in keyof MessageSearchQuery]?: MessageSearchQuery[Key] | undefined } & {
  text: string;
};

/** Searches with the driver's index, or without one. Rejects like `SessionDriver.searchMessages`. */
export function searchMessages(driver: SessionDriver, query: MessageSearchQuery): Promise<MessageSearchPage> {
  return driver.searchMessages?.(query) ?? scanMessages(driver, query);
}

/** Checks and runs the query of a client. Rejects with `InputError`. */
export async function searchSessions(
  openStore: () => Promise<SessionDriver>,
  { text, limit = PAGE_SIZE, projectDir, archived, visibleTo, before, signal }: SearchInput,
): Promise<MessageSearchPage> {
  if (typeof text !== "string" || text.length > MAX_QUERY_CHARACTERS)
    throw new InputError("text", `a text of at most ${MAX_QUERY_CHARACTERS} characters`);
  if (!Number.isSafeInteger(limit) || limit < 1) throw new InputError("limit", "a whole number, at least 1");
  if (!ARCHIVE_FILTERS.includes(archived)) throw new InputError("archived", "exclude, include or only");
  if (before !== undefined && typeof before !== "string")
    throw new InputError("before", "the `next` of an earlier page");
  signal?.throwIfAborted();
  return searchMessages(await openStore(), {
    text,
    limit,
    ...(projectDir !== undefined && { projectDir }),
    ...(archived !== undefined && { archived }),
    ...(visibleTo !== undefined && { visibleTo }),
    ...(before !== undefined && { before }),
    ...(signal && { signal }),
  });
}
