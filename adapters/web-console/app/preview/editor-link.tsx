import { Icon } from "../parts/icon.js";
import { labelEditor, toEditorUrl } from "./editor-urls.js";
import { editor } from "./editor.js";

/** Opens a file in the editor of the settings. Renders nothing while no editor is chosen. `path`: absolute. */
export function EditorLink({ path, line }: { path: string; line?: number | undefined }) {
  const name = editor.value;
  if (name === "") return null;
  const label = `Open in ${labelEditor(name)}`;
  return (
    <a class="icon-button" href={toEditorUrl(name, path, line)} aria-label={`${label}: ${path}`} title={label}>
      <Icon name="pencil" />
    </a>
  );
}
