import { useSignal, type ReadonlySignal } from "@preact/signals";
import type { ApiRun, ApiRunState } from "gantry/client";
import { useEffect } from "preact/hooks";
import { formatAge, formatDuration, formatCost, formatTokens } from "./parts/format.js";
import { Icon } from "./parts/icon.js";
import { useConsole } from "./state/context.js";
import { isActive } from "./state/watched-session.js";
import { RunsOverview } from "./runs-overview.js";

const STATE_LABELS: Readonly<Record<ApiRunState, string>> = {
  queued: "queued",
  running: "running",
  waiting: "waiting for an answer",
  finished: "finished",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "interrupted",
};
const DOT_CLASSES: Readonly<Record<ApiRunState, string>> = {
  queued: "waiting",
  running: "busy",
  waiting: "waiting",
  finished: "",
  failed: "bad",
  cancelled: "",
  interrupted: "bad",
};

/** Overview of active and recent runs of all sessions. */
export function Runs() {
  const store = useConsole();
  const overview = useSignal<RunsOverview | undefined>(undefined);
  useEffect(() => {
    const runsOverview = new RunsOverview(store.client, (error) => store.reportError(error));
    overview.value = runsOverview;
    return () => runsOverview.close();
  }, [store]);
  const currentOverview = overview.value;
  if (!currentOverview) return null;
  const runs = currentOverview.runs.value;
  const activeRuns = runs?.filter(isActive) ?? [];
  const endedRuns = runs?.filter((run) => !isActive(run)) ?? [];
  return (
    <div class="runs">
      <div class="runs-column">
        <header class="runs-head">
          <p role="status" class="runs-sum">
            {runs === undefined
              ? "Loading…"
              : activeRuns.length === 0
                ? "No active runs."
                : `${activeRuns.length} active${formatWaitingCount(activeRuns)}`}
          </p>
          {currentOverview.isUnavailable.value && (
            <p class="runs-lost">
              <Icon name="warning" /> The server is unavailable; this is the last known state.
            </p>
          )}
        </header>
        {activeRuns.length > 0 && (
          <RunList label="Active" runs={activeRuns} titles={currentOverview.titles} cancel={currentOverview.cancel} />
        )}
        {endedRuns.length > 0 && <RunList label="Ended" runs={endedRuns} titles={currentOverview.titles} />}
        {currentOverview.hasMore.value && (
          <button type="button" class="button" onClick={() => void currentOverview.loadMore()}>
            Older runs
          </button>
        )}
      </div>
    </div>
  );
}

function formatWaitingCount(runs: readonly ApiRun[]): string {
  const count = runs.filter(({ state }) => state === "waiting").length;
  if (count === 0) return "";
  return `, ${count} waiting for an answer`;
}

interface RunListProps {
  label: string;
  runs: readonly ApiRun[];
  titles: ReadonlySignal<ReadonlyMap<string, string>>;
  cancel?: (run: ApiRun) => Promise<void>;
}

function RunList({ label, runs, titles, cancel }: RunListProps) {
  return (
    <section aria-label={label}>
      <h2 class="runs-label">{label}</h2>
      <ul class="runs-list">
        {runs.map((run) => (
          <RunRow key={run.id} run={run} title={titles.value.get(run.session_id) ?? "Session"} cancel={cancel} />
        ))}
      </ul>
    </section>
  );
}

function RunRow({ run, title, cancel }: { run: ApiRun; title: string; cancel: RunListProps["cancel"] }) {
  const isStopping = useSignal(false);
  const stop = async () => {
    isStopping.value = true;
    await cancel?.(run);
    isStopping.value = false;
  };
  const durationMs = Date.parse(run.ended_at || new Date().toISOString()) - Date.parse(run.started_at);
  const facts = [
    run.model && `${run.provider}/${run.model}`,
    `started ${formatAge(run.started_at)}`,
    run.state === "queued" ? "" : formatDuration(Math.max(0, durationMs)),
    run.usage.total_tokens > 0 ? `${formatTokens(run.usage.total_tokens)} tokens` : "",
    formatCost(run.usage.cost),
    run.ended_by === "budget" ? "budget exceeded" : run.ended_by === "max_iterations" ? "iteration limit reached" : "",
  ].filter(Boolean);
  return (
    <li class={`run run-${run.state}`}>
      <span class={`dot ${DOT_CLASSES[run.state]}`} />
      <span class="run-text">
        <a class="run-title" href={`#/s/${run.session_id}`}>
          <bdi>{title}</bdi>
        </a>
        <span class="run-facts">
          <strong>{STATE_LABELS[run.state]}</strong> {facts.join(" · ")}
        </span>
        {run.error && run.state === "failed" && <span class="run-error">{run.error.message}</span>}
        {run.retry && (
          <span class="run-error">
            retrying (attempt {run.retry.attempt}): {run.retry.reason}
          </span>
        )}
      </span>
      {cancel && (
        <button
          type="button"
          class="button danger"
          disabled={isStopping.value}
          aria-label={`Stop the run of ${title}`}
          onClick={() => void stop()}
        >
          <Icon name="stop" /> Stop
        </button>
      )}
    </li>
  );
}
