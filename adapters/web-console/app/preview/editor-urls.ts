/** Editors that open files by a URL. Source: the documentation of each editor. */
const EDITORS = {
  vscode: { label: "VS Code", toUrl: (path: string, line: number) => `vscode://file${path}:${line}` },
  cursor: { label: "Cursor", toUrl: (path: string, line: number) => `cursor://file${path}:${line}` },
  windsurf: { label: "Windsurf", toUrl: (path: string, line: number) => `windsurf://file${path}:${line}` },
  zed: { label: "Zed", toUrl: (path: string, line: number) => `zed://file${path}:${line}` },
  idea: { label: "IntelliJ IDEA", toUrl: (path: string, line: number) => `idea://open?file=${path}&line=${line}` },
};

export type EditorName = keyof typeof EDITORS;
export const EDITOR_NAMES = Object.keys(EDITORS) as readonly EditorName[];

export function labelEditor(name: EditorName): string {
  return EDITORS[name].label;
}

/** URL that opens an absolute path. `line` counts from 1. */
export function toEditorUrl(name: EditorName, path: string, line = 1): string {
  const slashedPath = path.replaceAll("\\", "/");
  const absolutePath = slashedPath.startsWith("/") ? slashedPath : `/${slashedPath}`;
  return EDITORS[name].toUrl(absolutePath.split("/").map(encodeURIComponent).join("/"), line);
}
