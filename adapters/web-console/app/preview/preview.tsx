import { useSignal } from "@preact/signals";
import { ApiError, type ApiFileContent } from "gantry/client";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { highlightIn } from "../content/highlighting.js";
import { IconButton } from "../parts/button.js";
import { CopyButton } from "../parts/copy.js";
import { formatAge, formatBytes } from "../parts/format.js";
import { useConsole } from "../state/context.js";
import { toErrorMessage } from "../state/error-message.js";
import { EditorLink } from "./editor-link.js";
import type { FileReference } from "./file-reference.js";

interface PreviewProps {
  sessionId: string;
  file: FileReference;
}

/** Panel with the content of a file. */
export function Preview({ sessionId, file }: PreviewProps) {
  const store = useConsole();
  const content = useSignal<ApiFileContent | undefined>(undefined);
  const problem = useSignal("");
  useEffect(() => {
    const controller = new AbortController();
    content.value = undefined;
    problem.value = "";
    store.client.fileContent(file.path, { sessionId }, { signal: controller.signal }).then(
      (loadedContent) => (content.value = loadedContent),
      (error: unknown) => {
        if (!controller.signal.aborted) problem.value = describeProblem(error);
      },
    );
    return () => controller.abort();
  }, [sessionId, file.path]);
  return (
    <aside class="app-panel preview" aria-label="File">
      <div class="panel-head">
        <h2 class="clipped" title={file.path}>
          <bdi>{escapeInvisible(file.path)}</bdi>
        </h2>
        {content.value && <EditorLink path={content.value.path} line={file.line} />}
        <CopyButton getText={() => file.path} label="Copy the path" />
        <IconButton icon="x" label="Close" onClick={() => store.navigate({ name: "session", id: sessionId })} />
      </div>
      {content.value ? (
        <FileView content={content.value} line={file.line} />
      ) : (
        <p class="preview-note" role="status">
          {problem.value === "" ? "Loading…" : problem.value}
        </p>
      )}
    </aside>
  );
}

function FileView({ content, line }: { content: ApiFileContent; line: number | undefined }) {
  const { path, size, text, data, truncated, media_type: mediaType, modified_at: modifiedAt } = content;
  const facts = `${formatBytes(size)} · changed ${formatAge(modifiedAt)}`;
  return (
    <>
      <p class="preview-note">{truncated && text !== null ? `The beginning of ${facts}` : facts}</p>
      {text !== null ? (
        <TextView text={text} path={path} line={line} />
      ) : data !== undefined ? (
        <img class="picture" alt={`Picture, ${formatBytes(size)}`} src={`data:${mediaType};base64,${data}`} />
      ) : (
        <p class="preview-note" role="status">
          {truncated && mediaType.startsWith("image/")
            ? "This picture is too large for a preview."
            : `This file is not text (${mediaType}). It has no preview.`}
        </p>
      )}
    </>
  );
}

function TextView({ text, path, line }: { text: string; path: string; line: number | undefined }) {
  const container = useRef<HTMLDivElement>(null);
  const mark = useRef<HTMLDivElement>(null);
  const shownText = escapeInvisible(text);
  const lineCount = shownText.split("\n").length - (shownText.endsWith("\n") ? 1 : 0);
  const markedLine = line !== undefined && line <= lineCount ? line : undefined;
  useLayoutEffect(() => mark.current?.scrollIntoView({ block: "center" }), [text, markedLine]);
  useEffect(() => (container.current ? highlightIn(container.current) : undefined), [text]);
  return (
    <>
      {line !== undefined && markedLine === undefined && (
        <p class="preview-note">Line {line} is not part of this text.</p>
      )}
      <div class="preview-code" ref={container} tabIndex={0} role="region" aria-label="Content">
        <pre class="preview-numbers" aria-hidden="true">
          {Array.from({ length: lineCount }, (_, index) => index + 1).join("\n")}
        </pre>
        <pre>
          <code class={`language-${readLanguage(path)}`} key={text}>
            {shownText}
          </code>
        </pre>
        {markedLine !== undefined && (
          <div
            class="preview-mark"
            ref={mark}
            aria-label={`Line ${markedLine}`}
            role="img"
            style={{ top: `calc(${markedLine - 1} * var(--preview-line))` }}
          />
        )}
      </div>
    </>
  );
}

/** The highlighter's name of the file's language, from its name; `none` if the name has no ending. */
function readLanguage(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return /^(?:docker|make)file$/.test(name) ? name : (/\.([\w+-]+)$/.exec(name)?.[1] ?? "none");
}

function describeProblem(error: unknown): string {
  if (!(error instanceof ApiError)) return toErrorMessage(error);
  if (error.code === "file_not_found") return "This file does not exist, or no longer exists.";
  if (error.code === "not_a_file") return "This is not a regular file. It has no preview.";
  if (error.code === "file_refused") return `The server does not show this file: ${error.message}`;
  return toErrorMessage(error);
}
