import { useSignal } from "@preact/signals";
import type { ApiAsk } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import "./asks.css";
import { isolateRightToLeft } from "./content/right-to-left.js";
import { escapeExactly } from "./content/seen.js";
import { DiffView } from "./diff.js";
import { Icon } from "./parts/icon.js";
import { announce } from "./state/announce.js";
import type { WatchedSession } from "./state/open-session.js";

/** Maximum characters of an argument's value in a question. */
const MAX_VALUE_CHARACTERS = 4_000;
/** Lines and characters of a command that are visible without scrolling. */
const VISIBLE_COMMAND = { lines: 8, characters: 800 };
/** Time for which a new question ignores input, in ms: early key presses and clicks were meant for something else. */
const READING_MS = 500;

/** Open questions of the session's runs. Renders nothing if none is open. */
export function Asks({ session }: { session: WatchedSession }) {
  const asks = session.asks.value;
  const announcedIds = useRef(new Set<string>());
  const count = asks.length;
  // When a question disappears, the next one moves under the same pointer: the time starts again.
  const isRead = useTimePassed(asks.map(({ id }) => id).join());
  const wasTyping = useRef(false);
  useEffect(() => {
    const fresh = asks.filter(({ id }) => !announcedIds.current.has(id));
    for (const ask of fresh) {
      announcedIds.current.add(ask.id);
      announce(`${ask.kind === "permission" ? "Permission needed" : "Question"}: ${ask.title}`);
    }
    // A user who is typing is not interrupted; otherwise the question gets the focus.
    const { activeElement } = document;
    const isPrompt = activeElement !== null && isEmptyPrompt(activeElement);
    const isFree = !activeElement || activeElement === document.body || isPrompt;
    if (fresh.length === 0 || !isFree) return;
    wasTyping.current = isPrompt;
    focusAsk();
  }, [asks]);
  const had = useRef(false);
  useEffect(() => {
    // The focused element disappeared with the last answer. On a phone, focusing the prompt would open the keyboard.
    const isLost = had.current && count === 0 && document.activeElement === document.body;
    if (isLost && matchMedia("(hover: hover)").matches) focusPrompt();
    had.current = count > 0;
  }, [count === 0]);
  if (count === 0) return null;
  return (
    <section class="asks" aria-label="Questions of the run">
      {asks.map((ask) => (
        <AskCard
          key={ask.id}
          ask={ask}
          isRead={isRead}
          answer={(reply) => session.answer(ask, reply)}
          onTyped={() => wasTyping.current && focusPrompt()}
        />
      ))}
    </section>
  );
}

/** Focuses the first open question. Returns false if there is none. */
export function focusAsk(): boolean {
  const card = document.querySelector<HTMLElement>(".ask");
  card?.focus();
  return card !== null;
}

function focusPrompt(): void {
  document.getElementById("prompt")?.focus({ preventScroll: true });
}

/** Whether `what` has been unchanged long enough to be read. */
function useTimePassed(what: string): boolean {
  const passed = useSignal("");
  useEffect(() => {
    const timer = setTimeout(() => (passed.value = what), READING_MS);
    return () => clearTimeout(timer);
  }, [what]);
  return passed.value === what;
}

function isEmptyPrompt(element: Element): boolean {
  return element.id === "prompt" && (element as HTMLTextAreaElement).value === "";
}

type Reply = { choice: string } | { text: string };

interface AskCardProps {
  ask: ApiAsk;
  /** Whether the question was visible long enough for input to count as an answer. */
  isRead: boolean;
  answer: (reply: Reply) => Promise<void>;
  /** Called for a character key that came too early to be an answer. */
  onTyped: () => void;
}

function AskCard({ ask, isRead, answer, onTyped }: AskCardProps) {
  const isSending = useSignal(false);
  const text = useSignal("");
  const card = useRef<HTMLElement>(null);
  const reply = async (askReply: Reply) => {
    if (isSending.value) return;
    isSending.value = true;
    // The buttons become disabled; keep the focus on the card, so that the next question gets it.
    card.current?.focus();
    await answer(askReply);
    isSending.value = false;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, target, repeat, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey || (target instanceof HTMLElement && target.matches("input, textarea, select")))
      return;
    // A held key was pressed for the previous content.
    if (repeat) return;
    if (!isRead) {
      // The callback moves the focus, and the browser then types the key there.
      if (key.length === 1) onTyped();
      return;
    }
    const choice = /^[1-9]$/.test(key) ? ask.choices[Number(key) - 1] : undefined;
    if (!choice) return;
    event.preventDefault();
    void reply({ choice: choice.id });
  };
  const isPermission = ask.kind === "permission";
  return (
    <article
      ref={card}
      class={`ask ${ask.kind}`}
      tabIndex={-1}
      aria-labelledby={`ask-${ask.id}`}
      aria-busy={isSending.value || !isRead}
      onKeyDown={onKeyDown}
    >
      <header class="ask-head">
        <Icon name={isPermission ? "shield" : "question"} />
        <h2 class="ask-title" id={`ask-${ask.id}`}>
          <span class="ask-kind">{isPermission ? `May ${ask.tool} do this?` : "The run asks"}</span>
          <bdi dir={isPermission ? "ltr" : "auto"}>{isPermission ? isolateRightToLeft(ask.title) : ask.title}</bdi>
        </h2>
      </header>
      {ask.reason && <p class="ask-reason">{ask.reason}</p>}
      <div class="ask-body">
        <Details ask={ask} />
      </div>
      <div class="ask-choices">
        {ask.choices.map(({ id, label }, at) => (
          <button
            type="button"
            key={id}
            class={`button ${styleOf(id, isPermission)}`}
            disabled={isSending.value}
            aria-disabled={!isRead}
            aria-keyshortcuts={at < 9 ? String(at + 1) : undefined}
            onClick={() => isRead && void reply({ choice: id })}
          >
            {at < 9 && (
              <kbd class="ask-key" aria-hidden="true">
                {at + 1}
              </kbd>
            )}
            <span class="ask-label">{label}</span>
          </button>
        ))}
      </div>
      {ask.free_text && (
        <form
          class="ask-own"
          onSubmit={(event) => {
            event.preventDefault();
            if (text.value.trim() !== "") void reply({ text: text.value });
          }}
        >
          <input
            class="field"
            aria-label="Your own answer"
            placeholder="Your own answer…"
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
          <button type="submit" class="button" disabled={isSending.value || text.value.trim() === ""}>
            Answer
          </button>
        </form>
      )}
    </article>
  );
}

function styleOf(choice: string, isPermission: boolean): string {
  if (!isPermission) return "";
  if (choice.startsWith("reject")) return "danger";
  return choice === "allow" ? "primary" : "";
}

/** The content to decide on: the command, the changes, or the call's arguments. */
function Details({ ask }: { ask: ApiAsk }) {
  if (ask.kind === "question") return null;
  const input = typeof ask.input === "object" && ask.input !== null ? (ask.input as Record<string, unknown>) : {};
  const { command, description, ...otherArguments } = input;
  if (typeof command === "string") {
    return (
      <>
        {typeof description === "string" && <p class="ask-reason">{description}</p>}
        <Code label="Command" text={command} />
        <Arguments of={otherArguments} />
      </>
    );
  }
  if (ask.diff.length > 0)
    return ask.diff.map((diff) => <DiffView key={diff.path} diff={diff} isProposed pieces={ask.tool !== "write"} />);
  return <Arguments of={input} />;
}

function Arguments({ of: values }: { of: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(values);
  if (entries.length === 0) return null;
  return (
    <dl class="ask-arguments">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{isolateRightToLeft(escapeExactly(name))}</dt>
          <dd>
            {isolateRightToLeft(cut(escapeExactly(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Code({ label, text }: { label: string; text: string }) {
  const lines = text.split("\n").length;
  const isLong = lines > VISIBLE_COMMAND.lines || text.length > VISIBLE_COMMAND.characters;
  return (
    <>
      <pre class="ask-code" role="group" aria-label={label} tabIndex={0}>
        {escapeExactly(text)
          .split(EMPTY_LINES)
          .map((part, at) =>
            // Empty lines must not push content out of sight.
            at % 2 === 1 ? (
              <span class="ask-empty">{`${part.split("\n").length - 2} empty lines`}</span>
            ) : (
              isolateRightToLeft(part)
            ),
          )}
      </pre>
      {isLong && (
        <p class="ask-size">
          {lines > 1 && `${lines.toLocaleString("en")} lines, `}
          {text.length.toLocaleString("en")} characters: read it to its end
        </p>
      )}
    </>
  );
}

const EMPTY_LINES = /(\n(?:[ \t]*\n){4,})/;

function cut(text: string): string {
  return text.length > MAX_VALUE_CHARACTERS
    ? `${text.slice(0, MAX_VALUE_CHARACTERS)} … ${(text.length - MAX_VALUE_CHARACTERS).toLocaleString("en")} more characters`
    : text;
}
