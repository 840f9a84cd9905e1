import type { ApiMessage } from "gantry/client";
import { Markdown } from "../content/markdown-view.js";
import type { WatchedSession } from "../state/open-session.js";
import type { Row } from "../state/rows.js";
import { Parts } from "./parts.js";
import { splitContent } from "./split-content.js";
import { OrphanResult, ToolCallView } from "./tool-call.js";
import { Thought } from "./thought.js";

export function RowView({ row, session }: { row: Row; session: WatchedSession }) {
  const message = row.message.value;
  return (
    <article class={`row row-${message.role}`} aria-label={SAID_BY[message.role]}>
      {message.role === "user" && <UserMessage message={message} />}
      {message.role === "assistant" && <Answer message={message} session={session} />}
      {message.role === "tool" && <OrphanResult message={message} session={session} />}
      {message.role === "system" && <Aside message={message} />}
    </article>
  );
}

const SAID_BY = { user: "You", assistant: "Agent", tool: "Tool", system: "System" } as const;

function UserMessage({ message }: { message: ApiMessage }) {
  const { text, parts } = splitContent(message.content);
  return (
    <>
      {text !== "" && <div class="said">{text}</div>}
      <Parts parts={parts} />
    </>
  );
}

function Answer({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const { text, parts } = splitContent(message.content);
  const grows = message.finished === false && session.busy.value;
  return (
    <>
      {message.reasoning !== null && message.reasoning !== "" && (
        <Thought
          text={message.reasoning}
          open={session.unfolded(`thought ${message.id}`)}
          grows={grows && text === "" && message.tool_calls.length === 0}
        />
      )}
      {text.trim() !== "" && (
        <div class="answer">
          <Markdown text={text} grows={grows} />
          {grows && <span class="caret" aria-hidden="true" />}
        </div>
      )}
      <Parts parts={parts} />
      {message.tool_calls.map((call) => (
        <ToolCallView key={call.id} call={call} session={session} />
      ))}
      {message.finished === false && !grows && <div class="answer-cut">It was cut off here.</div>}
    </>
  );
}

function Aside({ message }: { message: ApiMessage }) {
  const { text } = splitContent(message.content);
  return (
    <details class="aside">
      <summary>Sent to the model</summary>
      <Markdown text={text} />
    </details>
  );
}
