import { useMemo } from "preact/hooks";
import type { ApiMessage, ApiToolCall } from "gantry/client";
import { DiffView } from "../diff.js";
import { Icon } from "../parts/icon.js";
import type { WatchedSession } from "../state/open-session.js";
import { changedLines } from "./changed-lines.js";
import { SubagentLinks } from "./helper-link.js";
import { Output } from "./output.js";
import { Parts } from "./parts.js";
import { splitContent } from "./split-content.js";
import { argumentsOf, labelCall } from "./tool-words.js";

type State = "writing" | "waiting" | "running" | "done" | "failed" | "stopped";

/** Maximum changed lines of a diff that is open by default. */
const MAX_OPEN_LINES = 40;

/** A tool call: one line, and its details when unfolded. */
export function ToolCallView({ call, session }: { call: ApiToolCall; session: WatchedSession }) {
  const result = session.result(call.id).value;
  const diffs = result?.diff ?? [];
  const values = useMemo(() => argumentsOf(call.function.arguments), [call.function.arguments]);
  const { icon, verb, about } = labelCall(call.function.name, values);
  const counts = useMemo(() => changedLines(diffs), [result]);
  const isAsking = session.asks.value.some((ask) => ask.tool_call_id === call.id);
  const state: State = result
    ? result.failed
      ? "failed"
      : "done"
    : !session.busy.value
      ? "stopped"
      : isAsking
        ? "waiting"
        : values
          ? "running"
          : "writing";
  // The user's choice wins. By default only small changes are open.
  const chosen = session.unfolded(`call ${call.id}`);
  const open = chosen.value ?? (counts !== undefined && counts.added + counts.removed <= MAX_OPEN_LINES);
  return (
    <section class={`call call-${state}`}>
      <button type="button" class="fold" aria-expanded={open} onClick={() => (chosen.value = !open)}>
        <Icon name={icon} />
        <span class="call-title clipped">
          <b>{verb}</b> {about !== "" && <code>{about}</code>}
        </span>
        {counts && (
          <span class="call-counts">
            <span class="call-added">+{counts.added}</span>
            <span class="call-removed">−{counts.removed}</span>
          </span>
        )}
        <StateView state={state} />
        <span class="chevron">
          <Icon name="chevron-right" />
        </span>
      </button>
      {open && (
        <div class="call-body">
          {diffs.length === 0 || chosen.value === true ? (
            <Arguments json={call.function.arguments} values={values} without={diffs.length > 0} />
          ) : null}
          {diffs.map((diff, index) => (
            <DiffView key={index} diff={diff} />
          ))}
          {call.function.name === "task" && <SubagentLinks session={session} callId={call.id} />}
          {result ? <Result message={result} /> : <Printed session={session} callId={call.id} />}
        </div>
      )}
    </section>
  );
}

/** A tool result without its call, which is before the first row. */
export function OrphanResult({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const open = session.unfolded(`result ${message.id}`);
  const { icon, verb } = labelCall(message.name, undefined);
  return (
    <section class="call">
      <button type="button" class="fold" aria-expanded={open.value === true} onClick={() => (open.value = !open.value)}>
        <Icon name={icon} />
        <span class="call-title clipped">
          <b>{verb}</b>
        </span>
        <StateView state={message.failed ? "failed" : "done"} />
        <span class="chevron">
          <Icon name="chevron-right" />
        </span>
      </button>
      {open.value && (
        <div class="call-body">
          <Result message={message} />
        </div>
      )}
    </section>
  );
}

function StateView({ state }: { state: State }) {
  switch (state) {
    case "done":
      return (
        <span class="call-state good">
          <Icon name="check" />
          <span class="unseen">done</span>
        </span>
      );
    case "failed":
      return (
        <span class="call-state bad">
          <Icon name="x" /> failed
        </span>
      );
    case "waiting":
      return <span class="call-state waiting">asks you</span>;
    case "stopped":
      return <span class="call-state">not done</span>;
    case "writing":
    case "running":
      return (
        <span class="call-state">
          <span class="spinner" />
          <span class="unseen">running</span>
        </span>
      );
  }
}

/** `without`: omits long arguments, because they are shown as changes. */
function Arguments({
  json,
  values,
  without,
}: {
  json: string;
  values: Record<string, unknown> | undefined;
  without: boolean;
}) {
  if (json === "" || json === "{}") return null;
  const entries = Object.entries(values ?? { arguments: json }).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, undefined, 2)] as const,
  );
  const shown = without ? entries.filter(([, value]) => value.length <= 120 && !value.includes("\n")) : entries;
  if (shown.length === 0) return null;
  return (
    <dl class="call-arguments">
      {shown.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd tabIndex={value.length > 600 ? 0 : undefined}>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Result({ message }: { message: ApiMessage }) {
  const { text, parts } = splitContent(message.content);
  return (
    <>
      {text !== "" && <Output text={text} />}
      <Parts parts={parts} />
    </>
  );
}

function Printed({ session, callId }: { session: WatchedSession; callId: string }) {
  const text = session.progress(callId).value;
  return text === "" ? null : <Output text={text} grows />;
}
