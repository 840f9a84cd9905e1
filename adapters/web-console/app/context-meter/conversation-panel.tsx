import type { ApiSessionContext } from "gantry/client";
import { ExportButtons } from "../conversation/export-buttons.js";
import { IconButton } from "../parts/button.js";
import { useConsole } from "../state/context.js";
import type { WatchedSession } from "../state/watched-session.js";
import { toPercent, useSessionContext } from "./session-context.js";

const PART_LABELS: Readonly<Record<ApiSessionContext["parts"][number]["name"], string>> = {
  system: "System prompt",
  instructions: "Instructions",
  tools: "Tools",
  messages: "Messages",
  tool_outputs: "Tool outputs",
};

/** Panel with the parts of the context window, and with buttons to copy and export the conversation. */
export function ConversationPanel({ session }: { session: WatchedSession }) {
  const store = useConsole();
  return (
    <aside class="app-panel" aria-label="Conversation">
      <div class="panel-head">
        <h2>Conversation</h2>
        <IconButton icon="x" label="Close" onClick={() => (store.openPanel.value = "")} />
      </div>
      <ContextBreakdown session={session} />
      <ExportButtons session={session} />
    </aside>
  );
}

function ContextBreakdown({ session }: { session: WatchedSession }) {
  const { context, reason } = useSessionContext(session).value;
  if (!context)
    return (
      <p class="context" role="status">
        {reason === "" ? "Measuring…" : `The context cannot be measured: ${reason}`}
      </p>
    );
  const { window, used, parts, estimated, compaction_at: compactionAt } = context;
  const freeTokens = Math.max(0, window - used);
  const rows = [
    ...parts.map(({ name, tokens }) => ({ name: name as string, label: PART_LABELS[name], tokens })),
    { name: "free", label: "Free", tokens: freeTokens },
  ];
  const total = Math.max(1, used + freeTokens);
  return (
    <section class="context" aria-label="Context window">
      <h3>Context window</h3>
      <p class="context-sum">
        <strong>{toPercent(context)} %</strong> of {window.toLocaleString("en")} tokens{estimated && ", estimated"}
      </p>
      <table class="context-parts">
        <thead class="visually-hidden">
          <tr>
            <th scope="col">Part</th>
            <th scope="col">Tokens</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, label, tokens }) => (
            <tr key={name} class={`context-${name}`}>
              <th scope="row">
                {label}
                <span class="context-bar" style={{ width: `${(tokens / total) * 100}%` }} />
              </th>
              <td>{tokens.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="context-note">
        {compactionAt === null
          ? "The conversation is not compacted."
          : `The conversation is compacted above ${compactionAt.toLocaleString("en")} tokens.`}
      </p>
    </section>
  );
}
