import { useMemo } from "preact/hooks";
import type { ApiMessage, ApiToolCall } from "gantry/client";
import { DiffView } from "../diff.js";
import { Icon } from "../parts/icon.js";
import { FileLink } from "../preview/file-links.js";
import { listCallFiles } from "../preview/known-files.js";
import type { WatchedSession } from "../state/watched-session.js";
import { readOutcome, type CallOutcome } from "./call-outcome.js";
import { countChangedLines } from "./changed-lines.js";
import { SubagentLinks } from "./subagent-links.js";
import { Output } from "./output.js";
import { ContentParts } from "./content-parts.js";
import { splitContent } from "./split-content.js";
import { parseArguments, labelCall } from "./tool-labels.js";

type CallState = "receiving-arguments" | "waiting" | "running" | "stopped" | CallOutcome["state"];

/** Maximum changed lines of a diff that is open by default. */
const MAX_OPEN_LINES = 40;
/** Maximum characters of an argument that is shown above a diff. */
const MAX_SHORT_ARGUMENT_CHARACTERS = 120;
/** Characters above which an argument may scroll, and therefore can be focused. */
const MIN_SCROLLABLE_CHARACTERS = 600;

/** Maximum links to files beside a call. */
const MAX_FILE_LINKS = 3;

/** Matches the error of an MCP server that needs a login. */
const LOGIN_REQUIRED_PATTERN = /: the server needs a login: run "gantry mcp login [^"]+"/;

/** A tool call: one line, and its details when unfolded. */
export function ToolCallView({ call, session }: { call: ApiToolCall; session: WatchedSession }) {
  const result = session.getResultSignal(call.id).value;
  const diffs = result?.diff ?? [];
  const values = useMemo(() => parseArguments(call.function.arguments), [call.function.arguments]);
  const { icon, verb, target } = labelCall(call.function.name, values);
  const files = useMemo(() => listCallFiles(call, result), [call, result]);
  const lineCounts = useMemo(() => countChangedLines(diffs), [result]);
  const isAsking = session.asks.value.some((ask) => ask.tool_call_id === call.id);
  const outcome = useMemo(() => result && readOutcome(result), [result]);
  const state: CallState = outcome
    ? outcome.state
    : session.isIdle.value
      ? "stopped"
      : isAsking
        ? "waiting"
        : values
          ? "running"
          : "receiving-arguments";
  // The user's choice wins. By default only small changes are open.
  const userChoice = session.getUnfoldedSignal(`call ${call.id}`);
  const isOpen =
    userChoice.value ?? (lineCounts !== undefined && lineCounts.added + lineCounts.removed <= MAX_OPEN_LINES);
  return (
    <section class={`call call-${state}`}>
      <div class="call-line">
        <button type="button" class="fold" aria-expanded={isOpen} onClick={() => (userChoice.value = !isOpen)}>
          <Icon name={icon} />
          <span class="call-title clipped">
            <b>{verb}</b> {target !== "" && <code>{target}</code>}
          </span>
          {lineCounts && (
            <span class="call-counts">
              <span class="call-added">+{lineCounts.added}</span>
              <span class="call-removed">−{lineCounts.removed}</span>
            </span>
          )}
          <StateView state={state} label={outcome?.label} />
          <span class="chevron">
            <Icon name="chevron-right" />
          </span>
        </button>
        {state === "running" && call.function.name === "bash" && (
          <button
            type="button"
            class="button quiet"
            title="The command continues, and the model does not wait for it"
            onClick={() => void session.moveToBackground(call.id)}
          >
            Move to background
          </button>
        )}
        {files.slice(0, MAX_FILE_LINKS).map((file) => (
          <FileLink key={file.path} session={session} file={file} />
        ))}
      </div>
      {!isOpen && outcome !== undefined && outcome.reason !== "" && <p class="call-reason">{outcome.reason}</p>}
      {isOpen && (
        <div class="call-body">
          {diffs.length === 0 || userChoice.value === true ? (
            <Arguments json={call.function.arguments} values={values} omitsLongArguments={diffs.length > 0} />
          ) : null}
          {diffs.map((diff, index) => (
            <DiffView key={index} diff={diff} />
          ))}
          {call.function.name === "task" && <SubagentLinks session={session} callId={call.id} />}
          {/* A stopped call may have no result but the output that this page has received. */}
          {(!result || outcome?.hasOutput === false) && (
            <LiveOutput session={session} callId={call.id} hasEnded={result !== undefined} />
          )}
          {result && <Result message={result} />}
        </div>
      )}
    </section>
  );
}

/** A tool result whose call is in an older message that is not loaded. */
export function OrphanResult({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const isOpen = session.getUnfoldedSignal(`result ${message.id}`);
  const { icon, verb } = labelCall(message.name, undefined);
  return (
    <section class="call">
      <button
        type="button"
        class="fold"
        aria-expanded={isOpen.value === true}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        <Icon name={icon} />
        <span class="call-title clipped">
          <b>{verb}</b>
        </span>
        <StateView {...readOutcome(message)} />
        <span class="chevron">
          <Icon name="chevron-right" />
        </span>
      </button>
      {isOpen.value && (
        <div class="call-body">
          <Result message={message} />
        </div>
      )}
    </section>
  );
}

function StateView({ state, label = "" }: { state: CallState; label?: string | undefined }) {
  switch (state) {
    case "done":
      return (
        <span class="call-state good">
          <Icon name="check" />
          <span class="visually-hidden">done</span>
        </span>
      );
    case "failed":
      return (
        <span class="call-state bad">
          <Icon name="x" /> {label}
        </span>
      );
    case "refused":
      return (
        <span class="call-state refused">
          <Icon name="shield" /> {label}
        </span>
      );
    case "waiting":
      return <span class="call-state waiting">waiting for your answer</span>;
    case "stopped":
      return (
        <span class="call-state">
          <Icon name="stop" /> {label || "stopped"}
        </span>
      );
    case "receiving-arguments":
    case "running":
      return (
        <span class="call-state">
          <span class="spinner" />
          <span class="visually-hidden">running</span>
        </span>
      );
  }
}

/** Arguments of a call. `omitsLongArguments`: whether diffs below already show the long arguments. */
function Arguments({
  json,
  values,
  omitsLongArguments,
}: {
  json: string;
  values: Record<string, unknown> | undefined;
  omitsLongArguments: boolean;
}) {
  if (json === "" || json === "{}") return null;
  const entries = Object.entries(values ?? { arguments: json }).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, undefined, 2)] as const,
  );
  const shownEntries = omitsLongArguments
    ? entries.filter(([, value]) => value.length <= MAX_SHORT_ARGUMENT_CHARACTERS && !value.includes("\n"))
    : entries;
  if (shownEntries.length === 0) return null;
  return (
    <dl class="call-arguments">
      {shownEntries.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd tabIndex={value.length > MIN_SCROLLABLE_CHARACTERS ? 0 : undefined}>{value}</dd>
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
      {message.failed && LOGIN_REQUIRED_PATTERN.test(text) && <a href="#/mcp">Log in to the MCP server</a>}
      <ContentParts parts={parts} />
    </>
  );
}

function LiveOutput({ session, callId, hasEnded }: { session: WatchedSession; callId: string; hasEnded: boolean }) {
  const text = session.getOutputSignal(callId).value;
  return text === "" ? null : <Output text={text} isStreaming={!hasEnded} />;
}
