import { useSignal } from "@preact/signals";
import type { ApiAsk } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { isolateRightToLeft } from "./content/right-to-left.js";
import { escapeExactly } from "./content/escape.js";
import { DiffView } from "./diff.js";
import { Icon } from "./parts/icon.js";
import { announce } from "./state/announce.js";
import type { WatchedSession } from "./state/watched-session.js";

/** Maximum characters of an argument's value in a question. */
const MAX_VALUE_CHARACTERS = 4_000;
/** Maximum lines and characters of a command that is visible without scrolling. */
const VISIBLE_COMMAND_LIMITS = { lines: 8, characters: 800 };
/** Time for which a new question ignores input, in ms: early key presses and clicks were not meant for the question. */
const MIN_READING_MS = 500;

/** Open questions of the session's runs. Renders nothing if none is open. */
export function Asks({ session }: { session: WatchedSession }) {
  const asks = session.asks.value;
  const announcedIds = useRef(new Set<string>());
  const count = asks.length;
  // When a question disappears, the next one moves under the same pointer: the reading time starts again.
  const isRead = useIsRead(asks.map(({ id }) => id).join());
  /** Whether the focus was in the empty prompt before the question got it. */
  const wasTyping = useRef(false);
  useEffect(() => {
    const newAsks = asks.filter(({ id }) => !announcedIds.current.has(id));
    for (const ask of newAsks) {
      announcedIds.current.add(ask.id);
      announce(`${ask.kind === "permission" ? "Permission needed" : "Question"}: ${ask.title}`);
    }
    // The question gets the focus, unless the user is typing.
    const { activeElement } = document;
    const isPrompt = activeElement !== null && isEmptyPrompt(activeElement);
    const canTakeFocus = !activeElement || activeElement === document.body || isPrompt;
    if (newAsks.length === 0 || !canTakeFocus) return;
    wasTyping.current = isPrompt;
    focusAsk();
  }, [asks]);
  const hadAsks = useRef(false);
  useEffect(() => {
    // If the focused element disappeared with the last answer, focus the prompt. On a phone this would open the
    // keyboard.
    const isFocusLost = hadAsks.current && count === 0 && document.activeElement === document.body;
    if (isFocusLost && matchMedia("(hover: hover)").matches) focusPrompt();
    hadAsks.current = count > 0;
  }, [count === 0]);
  if (count === 0) return null;
  return (
    <section class="asks" aria-label="Questions of the run">
      {asks.map((ask) => (
        <AskCard
          key={ask.id}
          ask={ask}
          isRead={isRead}
          answer={(reply) => session.answerAsk(ask, reply)}
          onEarlyKey={() => wasTyping.current && focusPrompt()}
        />
      ))}
    </section>
  );
}

/** Focuses the first open question. Returns false if no question is open. */
export function focusAsk(): boolean {
  const card = document.querySelector<HTMLElement>(".ask");
  card?.focus();
  return card !== null;
}

function focusPrompt(): void {
  document.getElementById("prompt")?.focus({ preventScroll: true });
}

/** Whether `content` has been unchanged for the reading time. */
export function useIsRead(content: string): boolean {
  const readContent = useSignal("");
  useEffect(() => {
    const timer = setTimeout(() => (readContent.value = content), MIN_READING_MS);
    return () => clearTimeout(timer);
  }, [content]);
  return readContent.value === content;
}

function isEmptyPrompt(element: Element): boolean {
  return element.id === "prompt" && (element as HTMLTextAreaElement).value === "";
}

export type AskAnswer = { choice: string } | { text: string };

interface AskCardProps {
  ask: ApiAsk;
  /** Whether the question was visible long enough for input to count as an answer. */
  isRead: boolean;
  answer: (reply: AskAnswer) => Promise<void>;
  /** Called for a character key that was pressed too early to be an answer. */
  onEarlyKey?: () => void;
}

/** A question with its content and the controls that answer it. */
export function AskCard({ ask, isRead, answer, onEarlyKey }: AskCardProps) {
  const isSending = useSignal(false);
  const text = useSignal("");
  const card = useRef<HTMLElement>(null);
  const reply = async (newReply: AskAnswer) => {
    if (isSending.value) return;
    isSending.value = true;
    // The buttons become disabled; keep the focus on the card, so that the next question gets it.
    card.current?.focus();
    await answer(newReply);
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
      if (key.length === 1) onEarlyKey?.();
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
        <AskDetails ask={ask} />
      </div>
      <div class="ask-choices">
        {ask.choices.map(({ id, label }, index) => (
          <button
            type="button"
            key={id}
            class={`button ${selectButtonClass(id, isPermission)}`}
            disabled={isSending.value}
            aria-disabled={!isRead}
            aria-keyshortcuts={index < 9 ? String(index + 1) : undefined}
            onClick={() => isRead && void reply({ choice: id })}
          >
            {index < 9 && (
              <kbd class="ask-key" aria-hidden="true">
                {index + 1}
              </kbd>
            )}
            <span class="ask-label">{label}</span>
          </button>
        ))}
      </div>
      {ask.free_text && (
        <form
          class="ask-free-text"
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

function selectButtonClass(choice: string, isPermission: boolean): string {
  if (!isPermission) return "";
  if (choice.startsWith("reject")) return "danger";
  return choice === "allow" ? "primary" : "";
}

/** The content of a permission request: the command, the changes, or the call's arguments. */
function AskDetails({ ask }: { ask: ApiAsk }) {
  if (ask.kind === "question") return null;
  const input = typeof ask.input === "object" && ask.input !== null ? (ask.input as Record<string, unknown>) : {};
  const { command, description, ...otherArguments } = input;
  if (typeof command === "string") {
    return (
      <>
        {typeof description === "string" && <p class="ask-reason">{description}</p>}
        <CommandText label="Command" text={command} />
        <Arguments values={otherArguments} />
      </>
    );
  }
  if (ask.diff.length > 0)
    return ask.diff.map((diff) => <DiffView key={diff.path} diff={diff} isProposed isExcerpt={ask.tool !== "write"} />);
  return <Arguments values={input} />;
}

function Arguments({ values }: { values: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(values);
  if (entries.length === 0) return null;
  return (
    <dl class="ask-arguments">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{isolateRightToLeft(escapeExactly(name))}</dt>
          <dd>
            {isolateRightToLeft(
              shorten(escapeExactly(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))),
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function CommandText({ label, text }: { label: string; text: string }) {
  const lines = text.split("\n").length;
  const isLong = lines > VISIBLE_COMMAND_LIMITS.lines || text.length > VISIBLE_COMMAND_LIMITS.characters;
  return (
    <>
      <pre class="ask-code" role="group" aria-label={label} tabIndex={0}>
        {escapeExactly(text)
          .split(EMPTY_LINES_PATTERN)
          .map((part, index) =>
            // Empty lines must not push content out of sight.
            index % 2 === 1 ? (
              <span class="ask-empty">{`${part.split("\n").length - 2} empty lines`}</span>
            ) : (
              isolateRightToLeft(part)
            ),
          )}
      </pre>
      {isLong && (
        <p class="ask-size">
          {lines > 1 && `${lines.toLocaleString("en")} lines, `}
          {text.length.toLocaleString("en")} characters: scroll to read all
        </p>
      )}
    </>
  );
}

/** Matches four or more empty lines with their line breaks. */
const EMPTY_LINES_PATTERN = /(\n(?:[ \t]*\n){4,})/;

/** Shortens a value to `MAX_VALUE_CHARACTERS` and appends the number of omitted characters. */
function shorten(text: string): string {
  return text.length > MAX_VALUE_CHARACTERS
    ? `${text.slice(0, MAX_VALUE_CHARACTERS)} … ${(text.length - MAX_VALUE_CHARACTERS).toLocaleString("en")} more characters`
    : text;
}
