import type { ApiRun } from "gantry/client";
import { formatDuration, formatCost, formatTokens } from "../parts/format.js";
import { Icon } from "../parts/icon.js";
import { RunActions } from "../rewind/run-actions.js";
import type { WatchedSession } from "../state/watched-session.js";

/** State of the newest run, below the messages. */
export function RunEnd({ session }: { session: WatchedSession }) {
  const run = session.run.value;
  if (!run) return null;
  if (session.isBusy.value) return <ActiveRun session={session} run={run} />;
  return (
    <>
      <RunOutcome run={run} />
      <RunActions session={session} run={run} />
    </>
  );
}

function RunOutcome({ run }: { run: ApiRun }) {
  switch (run.state) {
    case "failed":
      return (
        <div class="run-end bad">
          <Icon name="warning" />
          <span>
            <b>The run failed</b>
            {run.error ? `: ${run.error.message}` : "."}
          </span>
        </div>
      );
    case "cancelled":
      return (
        <div class="run-end stopped">
          <Icon name="stop" />
          <span>{describeStop(run)}</span>
        </div>
      );
    case "interrupted":
      return (
        <div class="run-end warn">
          <Icon name="warning" />
          <span>
            <b>The run was interrupted</b>: the process of the server ended. All stored messages are shown.
          </span>
        </div>
      );
    default:
      return <RunUsage run={run} />;
  }
}

/** Returns the cause and the time of a stop. */
function describeStop({ error, ended_at }: ApiRun): string {
  const time = ended_at === "" ? "" : ` at ${new Date(ended_at).toLocaleTimeString()}`;
  return error?.code === "shutting_down" ? `The server stopped the run${time}.` : `The run was stopped${time}.`;
}

function ActiveRun({ session, run }: { session: WatchedSession; run: ApiRun }) {
  if (run.retry)
    return (
      <div class="run-end warn">
        <span class="spinner" /> Retrying (attempt {run.retry.attempt}) at{" "}
        {new Date(run.retry.next_attempt_at).toLocaleTimeString()}: {run.retry.reason}
      </div>
    );
  const lastMessage = session.rows.value.at(-1)?.message.value;
  const isAnswering = lastMessage?.role === "assistant" && lastMessage.finished === false && lastMessage.content !== "";
  // The streamed answer above already shows the activity.
  if (run.state === "running" && isAnswering) return null;
  const label = run.state === "queued" ? "Queued" : run.state === "waiting" ? "Waiting for you" : "Working";
  return (
    <div class="run-end">
      {run.state === "waiting" ? <span class="dot waiting" /> : <span class="spinner" />} {label} …
    </div>
  );
}

function RunUsage({ run }: { run: ApiRun }) {
  const durationMs = Date.parse(run.ended_at) - Date.parse(run.started_at);
  const parts = [
    Number.isNaN(durationMs) ? "" : formatDuration(durationMs),
    run.usage.total_tokens > 0 ? `${formatTokens(run.usage.total_tokens)} tokens` : "",
    formatCost(run.usage.cost),
  ].filter((part) => part !== "");
  const endReason =
    run.ended_by === "budget"
      ? "Ended: budget exceeded. "
      : run.ended_by === "max_iterations"
        ? "Ended: iteration limit reached. "
        : "";
  return (
    <div class={endReason === "" ? "run-end" : "run-end warn"}>
      {endReason}
      {parts.join(" · ")}
    </div>
  );
}
