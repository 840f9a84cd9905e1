import { FILE_TARGET_ATTRIBUTE } from "../content/file-target.js";
import { Icon } from "../parts/icon.js";
import { toFragment } from "../state/router.js";
import type { WatchedSession } from "../state/watched-session.js";
import { parseFileReference, parseLinkTarget, type FileReference } from "./file-reference.js";

/** Link of a tool call to the preview of its file. */
export function FileLink({ session, file }: { session: WatchedSession; file: FileReference }) {
  const label = `Open ${file.path}`;
  return (
    <a class="icon-button call-file" href={toFileFragment(session, file)} aria-label={label} title={label}>
      <Icon name="file" />
    </a>
  );
}

/** Makes links of the file links of an element, and of the code that is a path which a tool has named. Can be repeated. */
export function linkFiles(element: Element, session: WatchedSession, projectDir: string | undefined): void {
  for (const link of element.querySelectorAll(`a[${FILE_TARGET_ATTRIBUTE}]`)) {
    const file = parseLinkTarget(link.getAttribute(FILE_TARGET_ATTRIBUTE) ?? "");
    if (file) link.setAttribute("href", toFileFragment(session, file));
  }
  if (projectDir === undefined) return;
  for (const code of element.querySelectorAll("code")) {
    if (code.closest("pre, a")) continue;
    const file = parseFileReference(code.textContent);
    if (!file || !session.knownFiles.has(file.path, projectDir)) continue;
    const link = document.createElement("a");
    link.href = toFileFragment(session, file);
    code.replaceWith(link);
    link.append(code);
  }
}

function toFileFragment({ id }: WatchedSession, file: FileReference): string {
  return toFragment({ name: "session", id, file });
}
