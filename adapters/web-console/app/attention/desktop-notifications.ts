import { effect } from "@preact/signals";
import type { ApiAsk, ApiRun, ApiSession } from "gantry/client";
import { escapeInvisible } from "../content/escape.js";
import type { Console } from "../state/console.js";

/** Tags of the notifications that a window of this browser has shown, or whose event a visible window has shown. */
const STORAGE_KEY = "gantry.notified";
const MAX_STORED_TAGS = 100;
/** Time in which a visible window can report an event as seen, before hidden windows notify, in ms. */
const NOTIFICATION_DELAY_MS = 1_000;
/** Time after which all windows know a stored tag, in ms. */
const LOCK_MS = 10_000;

interface NotificationText {
  title: string;
  body: string;
}

/**
 * Shows desktop notifications for new questions and ended runs while the page is hidden. Returns a function that stops
 * the notifications.
 */
export function startDesktopNotifications(store: Console): () => void {
  const notifications = new DesktopNotifications(store);
  const cleanups = [
    effect(() => notifications.showAsks(store.openAsks.value)),
    effect(() => notifications.showEndedRuns(store.sessionBrowser.sessions.value)),
    () => notifications.close(),
  ];
  return () => {
    for (const cleanUp of cleanups) cleanUp();
  };
}

class DesktopNotifications {
  readonly #store: Console;
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  readonly #notificationsByTag = new Map<string, Notification>();
  readonly #runIdsBySessionId = new Map<string, string>();
  #openTags: ReadonlySet<string> = new Set();

  constructor(store: Console) {
    this.#store = store;
  }

  /** Notifies of new questions, and closes the notifications of questions that are not open any more. */
  showAsks(asks: readonly ApiAsk[]): void {
    const previousTags = this.#openTags;
    this.#openTags = new Set(asks.map(toAskTag));
    for (const tag of previousTags) if (!this.#openTags.has(tag)) this.#notificationsByTag.get(tag)?.close();
    for (const ask of asks) {
      const tag = toAskTag(ask);
      if (previousTags.has(tag)) continue;
      this.#schedule(tag, ask.session_id, () =>
        Promise.resolve(
          this.#openTags.has(tag)
            ? { title: ask.kind === "permission" ? `May ${ask.tool} do this?` : "The run asks", body: ask.title }
            : undefined,
        ),
      );
    }
  }

  /** Notifies of runs that have ended since the last list. */
  showEndedRuns(sessions: readonly ApiSession[]): void {
    for (const { id, title, run } of sessions) {
      const runId = this.#runIdsBySessionId.get(id);
      if (run) this.#runIdsBySessionId.set(id, run.id);
      else this.#runIdsBySessionId.delete(id);
      if (runId === undefined || runId === run?.id) continue;
      this.#schedule(`gantry-run-${runId}`, id, async () => {
        const body = describeEnd(await this.#store.client.runs.get(runId));
        return body === undefined ? undefined : { title, body };
      });
    }
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  /** `createText`: undefined if no notification is needed. */
  #schedule(tag: string, sessionId: string, createText: () => Promise<NotificationText | undefined>): void {
    if (document.visibilityState === "visible") {
      claimTag(tag);
      return;
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      createText()
        .then(async (text) => {
          if (text && document.visibilityState !== "visible" && (await this.#claimFirst(tag)))
            this.#show(tag, sessionId, text);
        })
        // The server is unavailable, or the browser requires a service worker for notifications.
        .catch(() => undefined);
    }, NOTIFICATION_DELAY_MS);
    this.#timers.add(timer);
  }

  /**
   * Resolves with true in one window of the browser. All windows receive an event at the same time, and a change of
   * `localStorage` reaches other windows only later. Until then, a lock replaces the stored tag.
   */
  #claimFirst(tag: string): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const work = async (lock: Lock | null) => {
        const isFirst = lock !== null && claimTag(tag);
        resolve(isFirst);
        if (!isFirst) return;
        await new Promise<void>((endLock) => {
          const timer = setTimeout(() => {
            this.#timers.delete(timer);
            endLock();
          }, LOCK_MS);
          this.#timers.add(timer);
        });
      };
      navigator.locks.request(tag, { ifAvailable: true }, work).catch(reject);
    });
  }

  #show(tag: string, sessionId: string, { title, body }: NotificationText): void {
    // With the same tag, a notification of another window is replaced.
    const notification = new Notification(escapeInvisible(title), { body: escapeInvisible(body), tag });
    this.#notificationsByTag.set(tag, notification);
    notification.addEventListener("click", () => {
      window.focus();
      this.#store.navigate({ name: "session", id: sessionId });
      notification.close();
    });
    notification.addEventListener("close", () => this.#notificationsByTag.delete(tag));
  }
}

function toAskTag({ id }: ApiAsk): string {
  return `gantry-ask-${id}`;
}

/** Undefined for a run that a person has cancelled. */
function describeEnd({ state, error }: ApiRun): string | undefined {
  if (state === "cancelled") return undefined;
  if (state === "finished") return "The run has finished.";
  return error ? `The run has failed: ${error.message}` : "The run was interrupted.";
}

/** Stores a tag for all windows of the browser. Returns false if the tag was already stored. */
function claimTag(tag: string): boolean {
  const tags = (localStorage.getItem(STORAGE_KEY) ?? "").split(" ").filter(Boolean);
  if (tags.includes(tag)) return false;
  localStorage.setItem(STORAGE_KEY, [...tags, tag].slice(-MAX_STORED_TAGS).join(" "));
  return true;
}
