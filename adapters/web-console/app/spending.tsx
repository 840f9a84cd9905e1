import { useSignal, useSignalEffect } from "@preact/signals";
import type { GantryClient, ApiRun } from "gantry/client";
import { money, tokens as inShort } from "./parts/format.js";
import { pointsOf, roundUp, stepsOf, totalsOf, type CumulativeSpending } from "./plot.js";
import "./spending.css";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/open-session.js";

/** Maximum number of runs in the plot; the newest are used. */
const MAX_RUNS = 500;
const PAGE_SIZE = 100;

/** Tokens and cost of the session over time. */
export function Spending({ session }: { session: WatchedSession }) {
  const app = useConsole();
  const runs = useSignal<readonly ApiRun[] | undefined>(undefined);
  useSignalEffect(() => {
    void [session.run.value?.id, session.run.value?.state];
    let isOver = false;
    runsOf(app.client, session.id).then(
      (loadedRuns) => {
        if (!isOver) runs.value = loadedRuns;
      },
      (error: unknown) => {
        if (!isOver) app.fail(error);
      },
    );
    return () => {
      isOver = true;
    };
  });
  const usage = session.info.value?.usage;
  const totals = totalsOf((runs.value ?? []).map(spentBy));
  const hasCost = totals.some(({ cost }) => cost > 0);
  return (
    <section class="spending" aria-label="Tokens and cost">
      {usage && (
        <dl class="spending-sums">
          <Sum name="Tokens" value={usage.total_tokens.toLocaleString("en")} />
          <Sum name="Read" value={usage.prompt_tokens.toLocaleString("en")} />
          <Sum name="Written" value={usage.completion_tokens.toLocaleString("en")} />
          <Sum name="Cost" value={money(usage.cost) || "not known"} />
        </dl>
      )}
      {usage && usage.total_tokens > 0 && (
        <button
          type="button"
          class="button"
          disabled={session.busy.value}
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
          <Plot name="Tokens" totals={totals} value={({ tokens }) => tokens} say={inShort} />
          {hasCost && <Plot name="Cost" totals={totals} value={({ cost }) => cost} say={(usd) => money(usd) || "$0"} />}
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

const SIZE = { width: 300, height: 96 };

interface PlotProps {
  name: string;
  totals: readonly CumulativeSpending[];
  value: (total: CumulativeSpending) => number;
  say: (value: number) => string;
}

/** Step plot of cumulative spending. The table below has the same data as text. */
function Plot({ name, totals, value, say }: PlotProps) {
  const last = totals.at(-1);
  const [first] = totals;
  if (!last || !first) return null;
  const top = roundUp(value(last));
  const points = pointsOf(totals, value, { ...SIZE, top });
  const line = stepsOf(points, SIZE);
  const summary = `${name} over time: ${say(value(last))} in ${totals.length} ${totals.length === 1 ? "run" : "runs"}, from ${moment(first.at)} to ${moment(last.at)}`;
  const [endX, endY] = points.at(-1) ?? [0, 0];
  return (
    <figure class={`plot plot-${name.toLowerCase()}`}>
      <figcaption class="plot-name">
        {name} <strong>{say(value(last))}</strong>
      </figcaption>
      <div class="plot-frame">
        <span class="plot-top">{say(top)}</span>
        <svg
          class="plot-svg"
          role="img"
          aria-label={summary}
          viewBox={`0 -4 ${SIZE.width} ${SIZE.height + 8}`}
          preserveAspectRatio="none"
        >
          {[0, 0.5, 1].map((part) => (
            <line class="plot-grid" x1="0" x2={SIZE.width} y1={SIZE.height * part} y2={SIZE.height * part} />
          ))}
          <path class="plot-area" d={`${line}V${SIZE.height}H0Z`} />
          <path class="plot-line" d={line} />
          <path class="plot-end" d={`M${endX} ${endY}h0`} />
        </svg>
      </div>
      <div class="plot-times" aria-hidden="true">
        <span>{moment(first.at)}</span>
        {totals.length > 1 && <span>{moment(last.at)}</span>}
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
              <th scope="col">Begun</th>
              <th scope="col">Model</th>
              <th scope="col">Tokens</th>
              {hasCost && <th scope="col">Cost</th>}
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.id}>
                <td>{moment(Date.parse(run.started_at))}</td>
                <td>{run.model}</td>
                <td>{run.usage.total_tokens.toLocaleString("en")}</td>
                {hasCost && <td>{money(run.usage.cost) || "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function spentBy({ started_at, ended_at, usage }: ApiRun) {
  return { at: Date.parse(ended_at || started_at), tokens: usage.total_tokens, cost: usage.cost };
}

/** Runs of the session, newest first, without those that used no tokens. */
async function runsOf(client: GantryClient, sessionId: string): Promise<ApiRun[]> {
  const runs: ApiRun[] = [];
  for (let before: string | undefined; runs.length < MAX_RUNS;) {
    const page: ApiRun[] = await client.runs.list({ sessionId, before, size: PAGE_SIZE });
    runs.push(...page);
    before = page.at(-1)?.id;
    if (page.length < PAGE_SIZE) break;
  }
  return runs.filter(({ usage }) => usage.total_tokens > 0);
}

function moment(at: number): string {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}
