import { escapeInvisible } from "../content/escape.js";

/** Whether a folder is a worktree: the folder that contains it is named by an id. */
export function isWorktreeFolder(folder: string): boolean {
  return /[/\\][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[/\\]/.test(folder);
}

/** Labels of project folders: the folder's name, after as many parent folders as make it unique. */
export function labelProjects(folders: readonly string[]): ReadonlyMap<string, string> {
  const splitFolders = folders.map((folder) => folder.split(/[/\\]/).filter((part) => part !== ""));
  return new Map(
    folders.map((folder, index) => {
      const parts = splitFolders[index] ?? [];
      const isShared = (length: number) =>
        splitFolders.some((otherParts, otherIndex) => otherIndex !== index && endsAlike(parts, otherParts, length));
      let length = 1;
      while (length < parts.length && isShared(length)) length += 1;
      return [folder, escapeInvisible(parts.slice(-length).join("/") || folder)];
    }),
  );
}

function endsAlike(parts: readonly string[], otherParts: readonly string[], length: number): boolean {
  return parts.slice(-length).join("/") === otherParts.slice(-length).join("/");
}
