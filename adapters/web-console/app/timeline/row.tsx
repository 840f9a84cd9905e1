import type { ApiMessage } from "gantry/client";
import { useCallback } from "preact/hooks";
import { Markdown } from "../content/markdown-view.js";
import { createLazyView } from "../frame/lazy-view.js";
import { linkFiles } from "../preview/file-links.js";
import type { WatchedSession } from "../state/watched-session.js";
import type { Row } from "../state/rows.js";
import { MessageActions } from "../rewind/message-actions.js";
import { ContentParts } from "./content-parts.js";
import { CopyMessage } from "./copy-message.js";
import { splitContent } from "./split-content.js";
import { OrphanResult, ToolCallView } from "./tool-call.js";
import { Thought } from "./thought.js";

const StoredCommand = createLazyView(async () => (await import("../deferred.js")).StoredCommand, "");

/** A message of the timeline. */
export function RowView({ row, session }: { row: Row; session: WatchedSession }) {
  const message = row.message.value;
  return (
    <article class={`row row-${message.role}`} aria-label={ROLE_LABELS[message.role]}>
      {message.role === "user" &&
        (isStoredCommand(message) ? (
          <StoredCommand message={message} />
        ) : (
          <UserMessage message={message} session={session} />
        ))}
      {message.role === "assistant" && <Answer message={message} session={session} />}
      {message.role === "tool" && <OrphanResult message={message} session={session} />}
      {message.role === "system" && <SystemMessage message={message} />}
    </article>
  );
}

const ROLE_LABELS = { user: "You", assistant: "Agent", tool: "Tool", system: "System" } as const;

/** Whether a message has a shell command of a person and its output. */
function isStoredCommand({ content, expanded_content: expandedContent = "" }: ApiMessage): boolean {
  return typeof content === "string" && content.startsWith("!") && expandedContent.endsWith("</user-command-output>");
}

function UserMessage({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const { text, parts } = splitContent(message.content);
  return (
    <>
      {text !== "" && <div class="user-text">{text}</div>}
      {text !== "" && <CopyMessage text={text} label="Copy the message" />}
      <ContentParts parts={parts} />
      <MessageActions message={message} session={session} />
    </>
  );
}

function Answer({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const { text, parts } = splitContent(message.content);
  const isStreaming = message.finished === false && session.isBusy.value;
  const projectDir = session.projectDir.value;
  // The project folder may be received after the answer, and the calls of a message follow its text.
  const linkBlock = useCallback(
    (block: Element) => linkFiles(block, session, projectDir),
    [session, projectDir, message.tool_calls.length, message.finished],
  );
  return (
    <>
      {message.reasoning !== null && message.reasoning !== "" && (
        <Thought
          text={message.reasoning}
          isOpen={session.getUnfoldedSignal(`thought ${message.id}`)}
          isStreaming={isStreaming && text === "" && message.tool_calls.length === 0}
        />
      )}
      {text.trim() !== "" && (
        <div class="answer">
          <Markdown text={text} isStreaming={isStreaming} linkFiles={linkBlock} />
          {isStreaming && <span class="caret" aria-hidden="true" />}
          {!isStreaming && <CopyMessage text={text} label="Copy the answer" />}
        </div>
      )}
      <ContentParts parts={parts} />
      {message.tool_calls.map((call) => (
        <ToolCallView key={call.id} call={call} session={session} />
      ))}
      {message.finished === false && session.isIdle.value && (
        <div class="answer-interrupted">The answer was interrupted here.</div>
      )}
    </>
  );
}

function SystemMessage({ message }: { message: ApiMessage }) {
  const { text } = splitContent(message.content);
  return (
    <details class="aside">
      <summary>Sent to the model</summary>
      <Markdown text={text} />
    </details>
  );
}
