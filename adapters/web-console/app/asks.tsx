import { useSignal } from "@preact/signals";
import type { Ask } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import "./asks.css";
import { DiffView } from "./diff.js";
import { Icon } from "./parts/icon.js";
import { announce } from "./state/announce.js";
import type { OpenSession } from "./state/open-session.js";

/** Characters of a value that stand in a question. */
const SHOWN = 4_000;

/** What the session's runs want to know; nothing where nothing is open. */
export function Asks({ session }: { session: OpenSession }) {
  const asks = session.asks.value;
  const known = useRef(new Set<string>());
  const count = asks.length;
  useEffect(() => {
    const fresh = asks.filter(({ id }) => !known.current.has(id));
    for (const ask of fresh) {
      known.current.add(ask.id);
      announce(`${ask.kind === "permission" ? "Permission needed" : "Question"}: ${ask.title}`);
    }
    // Who types is not interrupted; who does not has the question at hand.
    const { activeElement } = document;
    const isFree = !activeElement || activeElement === document.body || isEmptyPrompt(activeElement);
    if (fresh.length > 0 && isFree) focusAsk();
  }, [asks]);
  const had = useRef(false);
  useEffect(() => {
    // What had the focus is gone with the last answer. On a phone the field would bring up the keyboard.
    const isLost = had.current && count === 0 && document.activeElement === document.body;
    if (isLost && matchMedia("(hover: hover)").matches)
      document.getElementById("prompt")?.focus({ preventScroll: true });
    had.current = count > 0;
  }, [count === 0]);
  if (count === 0) return null;
  return (
    <section class="asks" aria-label="Questions of the run">
      {asks.map((ask) => (
        <AskCard key={ask.id} ask={ask} answer={(reply) => session.answer(ask, reply)} />
      ))}
    </section>
  );
}

/** Bring the first open question under the keyboard; false where there is none. */
export function focusAsk(): boolean {
  const card = document.querySelector<HTMLElement>(".ask");
  card?.focus();
  return card !== null;
}

function isEmptyPrompt(element: Element): boolean {
  return element.id === "prompt" && (element as HTMLTextAreaElement).value === "";
}

type Reply = { choice: string } | { text: string };

function AskCard({ ask, answer }: { ask: Ask; answer: (reply: Reply) => Promise<void> }) {
  const isSending = useSignal(false);
  const text = useSignal("");
  const card = useRef<HTMLElement>(null);
  const reply = async (given: Reply) => {
    if (isSending.value) return;
    isSending.value = true;
    // The buttons go; what comes next is where the focus was.
    card.current?.focus();
    await answer(given);
    isSending.value = false;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey || (target instanceof HTMLElement && target.matches("input, textarea, select")))
      return;
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
      aria-busy={isSending.value}
      onKeyDown={onKeyDown}
    >
      <header class="ask-head">
        <Icon name={isPermission ? "shield" : "question"} />
        <h2 class="ask-title" id={`ask-${ask.id}`}>
          <span class="ask-kind">{isPermission ? `May ${ask.tool} do this?` : "The run asks"}</span>
          <bdi>{ask.title}</bdi>
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
            aria-keyshortcuts={at < 9 ? String(at + 1) : undefined}
            onClick={() => void reply({ choice: id })}
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

/** What the answer is about: the command, the changes, or the call's arguments. */
function Details({ ask }: { ask: Ask }) {
  if (ask.kind === "question") return null;
  const input = typeof ask.input === "object" && ask.input !== null ? (ask.input as Record<string, unknown>) : {};
  const { command, description, ...others } = input;
  if (typeof command === "string") {
    return (
      <>
        {typeof description === "string" && <p class="ask-reason">{description}</p>}
        <Code label="Command" text={command} />
        <Arguments of={others} />
      </>
    );
  }
  if (ask.diff.length > 0) return ask.diff.map((diff) => <DiffView key={diff.path} diff={diff} asked />);
  return <Arguments of={input} />;
}

function Arguments({ of: given }: { of: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(given);
  if (entries.length === 0) return null;
  return (
    <dl class="ask-arguments">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{cut(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))}</dd>
        </div>
      ))}
    </dl>
  );
}

function Code({ label, text }: { label: string; text: string }) {
  return (
    <pre class="ask-code" role="group" aria-label={label} tabIndex={0}>
      {text}
    </pre>
  );
}

function cut(text: string): string {
  return text.length > SHOWN
    ? `${text.slice(0, SHOWN)} … ${(text.length - SHOWN).toLocaleString("en")} more characters`
    : text;
}
