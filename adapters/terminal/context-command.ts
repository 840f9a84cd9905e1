import { TextOverlay } from "./overlays.js";
import type { TerminalStore } from "./store.js";
import { formatCount } from "./text.js";

const PART_LABELS: Readonly<Record<string, string>> = {
  system: "system prompt",
  instructions: "instructions",
  tools: "tools",
  messages: "messages",
  tool_outputs: "outputs of tools",
};

/** `/context`: shows the tokens of the next model call by part. */
export async function showContext(store: TerminalStore): Promise<void> {
  const { id, mirror } = store.conversation;
  if (id === undefined) return store.showNotice("No messages yet.");
  const context = await store.options.client.sessions.context(id);
  const { window, used, compaction_at: compactionAt, estimated, parts } = context;
  const toPercent = (tokens: number) => `${Math.round((100 * tokens) / window)}%`;
  const usage = mirror.state?.session.usage;
  store.showOverlay(
    new TextOverlay("Context", [
      ["next prompt", `${estimated ? "about " : ""}${formatCount(used)} of ${formatCount(window)}, ${toPercent(used)}`],
      ...parts.map(({ name, tokens }): [string, string] => [
        `  ${PART_LABELS[name] ?? name}`,
        `${formatCount(tokens)}, ${toPercent(tokens)}`,
      ]),
      [
        "compaction",
        compactionAt === null ? "never" : `above ${formatCount(compactionAt)}, ${toPercent(compactionAt)}`,
      ],
      ["cost", usage && usage.cost > 0 ? `$${usage.cost.toFixed(4)}` : "no price known"],
    ]),
  );
}
