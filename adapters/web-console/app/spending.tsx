import { useSignal, useSignalEffect } from "@preact/signals";
import type { GantryClient, ApiRun } from "gantry/client";
import { formatCost, formatTokens } from "./parts/format.js";
import { toPoints, roundUp, toStepPath, sumRuns, type CumulativeSpending } from "./usage-chart.js";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/watched-session.js";

/** Maximum number of runs in the plot: the newest runs. */
const MAX_RUNS = 500;
const PAGE_SIZE = 100;

/** Tokens and cost of the session over time. */
export function Spending({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const runs = useSignal<readonly ApiRun[] | undefined>(undefined);
  useSignalEffect(() => {
    void [session.run.value?.id, session.run.value?.state];
    let isDisposed = false;
    loadRuns(store.client, session.id).then(
      (loadedRuns) => {
        if (!isDisposed) runs.value = loadedRuns;
      },
      (error: unknown) => {
        if (!isDisposed) store.reportError(error);
      },
    );
    return () => {
      isDisposed = true;
    };
  });
  const usage = session.info.value?.usage;
  const totals = sumRuns((runs.value ?? []).map(toRunSpending));
  const hasCost = totals.some(({ cost }) => cost > 0);
  return (
    <section class="spending" aria-label="Tokens and cost">
      {usage && (
        <dl class="spending-sums">
          <Sum name="Tokens" value={usage.total_tokens.toLocaleString("en")} />
          <Sum name="Input" value={usage.prompt_tokens.toLocaleString("en")} />
          <Sum name="Output" value={usage.completion_tokens.toLocaleString("en")} />
          <Sum name="Cost" value={formatCost(usage.cost) || (usage.total_tokens > 0 ? "no price known" : "–")} />
        </dl>
      )}
      {usage && usage.total_tokens > 0 && (
        <button
          type="button"
          class="button"
          disabled={session.isBusy.value}
          title="Summarizes the conversation for the model, so that each prompt needs fewer tokens. All messages stay visible."
          onClick={() => void session.compact()}
        >
          Compact the conversation
        </button>
      )}
      {runs.value === undefined ? (
        <p class="spending-note">
          <span class="spinner" /> Loading runs…
        </p>
      ) : totals.length === 0 ? (
        <p class="spending-note">No usage yet.</p>
      ) : (
        <>
          <Plot name="Tokens" totals={totals} value={({ tokens }) => tokens} format={formatTokens} />
          {hasCost && (
            <Plot name="Cost" totals={totals} value={({ cost }) => cost} format={(usd) => formatCost(usd) || "$0"} />
          )}
          <RunTable runs={runs.value} hasCost={hasCost} />
        </>
      )}
    </section>
  );
}

function Sum({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Size of the plot in units of its SVG. */
const PLOT_SIZE = { width: 300, height: 96 };

interface PlotProps {
  name: string;
  totals: readonly CumulativeSpending[];
  value: (total: CumulativeSpending) => number;
  format: (value: number) => string;
}

/** Step plot of cumulative spending. The table below has the same data as text. */
function Plot({ name, totals, value, format }: PlotProps) {
  const lastTotal = totals.at(-1);
  const [firstTotal] = totals;
  if (!lastTotal || !firstTotal) return null;
  const top = roundUp(value(lastTotal));
  const points = toPoints(totals, value, { ...PLOT_SIZE, top });
  const line = toStepPath(points, PLOT_SIZE);
  const summary = `${name} over time: ${format(value(lastTotal))} in ${totals.length} ${totals.length === 1 ? "run" : "runs"}, from ${formatTime(firstTotal.endMs)} to ${formatTime(lastTotal.endMs)}`;
  const [endX, endY] = points.at(-1) ?? [0, 0];
  return (
    <figure class={`plot plot-${name.toLowerCase()}`}>
      <figcaption class="plot-name">
        {name} <strong>{format(value(lastTotal))}</strong>
      </figcaption>
      <div class="plot-frame">
        <span class="plot-top">{format(top)}</span>
        <svg
          class="plot-svg"
          role="img"
          aria-label={summary}
          viewBox={`0 -4 ${PLOT_SIZE.width} ${PLOT_SIZE.height + 8}`}
          preserveAspectRatio="none"
        >
          {[0, 0.5, 1].map((fraction) => (
            <line
              class="plot-grid"
              x1="0"
              x2={PLOT_SIZE.width}
              y1={PLOT_SIZE.height * fraction}
              y2={PLOT_SIZE.height * fraction}
            />
          ))}
          <path class="plot-area" d={`${line}V${PLOT_SIZE.height}H0Z`} />
          <path class="plot-line" d={line} />
          <path class="plot-end" d={`M${endX} ${endY}h0`} />
        </svg>
      </div>
      <div class="plot-times" aria-hidden="true">
        <span>{formatTime(firstTotal.endMs)}</span>
        {totals.length > 1 && <span>{formatTime(lastTotal.endMs)}</span>}
      </div>
    </figure>
  );
}

function RunTable({ runs, hasCost }: { runs: readonly ApiRun[]; hasCost: boolean }) {
  return (
    <details class="spending-runs">
      <summary>Each run</summary>
      <div class="spending-table" role="group" aria-label="Usage of each run" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Started</th>
              <th scope="col">Model</th>
              <th scope="col">Tokens</th>
              {hasCost && <th scope="col">Cost</th>}
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.id}>
                <td>{formatTime(Date.parse(run.started_at))}</td>
                <td>{run.model}</td>
                <td>{run.usage.total_tokens.toLocaleString("en")}</td>
                {hasCost && <td>{formatCost(run.usage.cost) || "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function toRunSpending({ started_at, ended_at, usage }: ApiRun) {
  return { endMs: Date.parse(ended_at || started_at), tokens: usage.total_tokens, cost: usage.cost };
}

/** Runs of the session that used tokens, newest first. */
async function loadRuns(client: GantryClient, sessionId: string): Promise<ApiRun[]> {
  const runs: ApiRun[] = [];
  for (let before: string | undefined; runs.length < MAX_RUNS;) {
    const page: ApiRun[] = await client.runs.list({ sessionId, before, size: PAGE_SIZE });
    runs.push(...page);
    before = page.at(-1)?.id;
    if (page.length < PAGE_SIZE) break;
  }
  return runs.filter(({ usage }) => usage.total_tokens > 0);
}

function formatTime(timeMs: number): string {
  const date = new Date(timeMs);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
