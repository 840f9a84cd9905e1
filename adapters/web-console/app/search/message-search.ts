import { batch, signal } from "@preact/signals";
import type { ApiMessageMatch, GantryClient } from "gantry/client";
import { toErrorMessage } from "../state/error-message.js";

/** Pause in typing after which the messages are searched, in ms. */
const TYPING_PAUSE_MS = 250;
const PAGE_SIZE = 50;

/** The matches of one session, newest first. */
export interface SessionMatches {
  sessionId: string;
  title: string;
  matches: readonly ApiMessageMatch[];
}

/** A search in the messages of all sessions. */
export class MessageSearch {
  readonly #client: GantryClient;
  /** The text of the loaded matches. */
  #searchedText = "";
  #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly matches = signal<readonly ApiMessageMatch[]>([]);
  /** `before` of the next page; undefined if there is none. */
  readonly next = signal<string | undefined>(undefined);
  readonly isLoading = signal(false);
  /** The message of the last error, or `""`. */
  readonly problem = signal("");

  constructor(client: GantryClient) {
    this.#client = client;
  }

  /** Searches for a text after a pause in typing. */
  search(text: string): void {
    const searchText = text.trim();
    if (searchText === this.#searchedText) return;
    this.#searchedText = searchText;
    this.close();
    batch(() => {
      this.problem.value = "";
      this.isLoading.value = searchText !== "";
      if (searchText === "") this.#show([], undefined);
    });
    if (searchText !== "") this.#timer = setTimeout(() => void this.#load([], undefined), TYPING_PAUSE_MS);
  }

  async loadMore(): Promise<void> {
    const before = this.next.peek();
    if (before !== undefined && !this.isLoading.peek()) await this.#load(this.matches.peek(), before);
  }

  /** Cancels the requests. */
  close(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
    this.#controller = new AbortController();
  }

  async #load(previousMatches: readonly ApiMessageMatch[], firstBefore: string | undefined): Promise<void> {
    const { signal: abortSignal } = this.#controller;
    let matches = previousMatches;
    let before = firstBefore;
    this.isLoading.value = true;
    try {
      // The server's time limit may have ended a page early: continue until the page is full.
      do {
        const page = await this.#client.sessions.search(
          this.#searchedText,
          { limit: PAGE_SIZE, archived: "include", ...(before !== undefined && { before }) },
          { signal: abortSignal },
        );
        matches = [...matches, ...page.matches];
        before = page.next;
        this.#show(matches, before);
      } while (before !== undefined && matches.length < previousMatches.length + PAGE_SIZE);
    } catch (error) {
      if (!abortSignal.aborted) this.problem.value = toErrorMessage(error);
    } finally {
      if (!abortSignal.aborted) this.isLoading.value = false;
    }
  }

  #show(matches: readonly ApiMessageMatch[], next: string | undefined): void {
    batch(() => {
      this.matches.value = matches;
      this.next.value = next;
    });
  }
}

/** Groups matches by session, in the order of the newest match. */
export function groupBySession(matches: readonly ApiMessageMatch[]): readonly SessionMatches[] {
  const groups = new Map<string, ApiMessageMatch[]>();
  for (const match of matches) {
    const group = groups.get(match.session_id);
    if (group) group.push(match);
    else groups.set(match.session_id, [match]);
  }
  return [...groups].map(([sessionId, sessionMatches]) => ({
    sessionId,
    title: sessionMatches[0]?.title ?? "",
    matches: sessionMatches,
  }));
}
