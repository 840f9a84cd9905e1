import type { ApiRun } from "gantry/client";
import { duration, money, tokens } from "../parts/format.js";
import { Icon } from "../parts/icon.js";
import type { WatchedSession } from "../state/open-session.js";

/** State of the newest run, below the messages. */
export function RunEnd({ session }: { session: WatchedSession }) {
  const run = session.run.value;
  if (!run) return null;
  if (session.busy.value) return <UnderWay session={session} run={run} />;
  switch (run.state) {
    case "failed":
      return (
        <div class="run-end bad">
          <Icon name="warning" />
          <span>{run.error?.message ?? "The run failed."}</span>
        </div>
      );
    case "cancelled":
      return <div class="run-end">Stopped.</div>;
    case "interrupted":
      return (
        <div class="run-end warn">
          <Icon name="warning" /> The run's process exited unexpectedly. All stored messages are shown.
        </div>
      );
    default:
      return <Spent run={run} />;
  }
}

function UnderWay({ session, run }: { session: WatchedSession; run: ApiRun }) {
  if (run.retry)
    return (
      <div class="run-end warn">
        <span class="spinner" /> Retrying (attempt {run.retry.attempt}) at{" "}
        {new Date(run.retry.next_attempt_at).toLocaleTimeString()}: {run.retry.reason}
      </div>
    );
  const last = session.rows.value.at(-1)?.message.value;
  const says = last?.role === "assistant" && last.finished === false && last.content !== "";
  // The growing answer above already shows the activity.
  if (run.state === "running" && says) return null;
  const words = run.state === "queued" ? "Queued" : run.state === "waiting" ? "Waiting for you" : "Working";
  return (
    <div class="run-end">
      {run.state === "waiting" ? <span class="dot waiting" /> : <span class="spinner" />} {words} …
    </div>
  );
}

function Spent({ run }: { run: ApiRun }) {
  const took = Date.parse(run.ended_at) - Date.parse(run.started_at);
  const parts = [
    Number.isNaN(took) ? "" : duration(took),
    run.usage.total_tokens > 0 ? `${tokens(run.usage.total_tokens)} tokens` : "",
    money(run.usage.cost),
  ].filter((part) => part !== "");
  const ended =
    run.ended_by === "budget"
      ? "Ended: budget exceeded. "
      : run.ended_by === "max_iterations"
        ? "Ended: iteration limit reached. "
        : "";
  return (
    <div class={ended === "" ? "run-end" : "run-end warn"}>
      {ended}
      {parts.join(" · ")}
    </div>
  );
}
