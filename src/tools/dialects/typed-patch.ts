import { posix } from "node:path";

/** `cd` to a plain word, before the patch. */
const CHANGE_FOLDER = /^cd\s+(?:'([^'\n]+)'|"([^"$`\\\n]+)"|([\w./@%+,-]+))\s*&&\s*/;
/** The here-document of a command, to its end. */
const HERE_DOCUMENT = /^<<-?[ \t]*(['"]?)(\w+)\1[ \t]*\n((?:(?![ \t]*\2[ \t]*\n).*\n)+)[ \t]*\2[ \t]*$/;
const QUOTED_PATCH = /^apply_?patch\s+'((?:[^']|'\\'')+)'$/;
const FILE_LINE = /^(\*\*\* (?:(?:Add|Update|Delete) File|Move to): *)(\S.*)$/;

/**
 * Returns the patch that a shell line passes to `apply_patch`; undefined if the line does anything else, or something
 * else as well. `workdir`: the folder of the command; undefined for the project folder.
 *
 * Agents whose models write this take the here-document literally, whether or not its word is quoted.
 */
export function findTypedPatch(line: string, workdir: string | undefined): string | undefined {
  let command = line.replaceAll("\r\n", "\n").trim();
  const folderMatch = CHANGE_FOLDER.exec(command);
  if (folderMatch) command = command.slice(folderMatch[0].length);
  const quotedPatch = QUOTED_PATCH.exec(command)?.[1]?.replaceAll("'\\''", "'");
  const patch = quotedPatch ?? HERE_DOCUMENT.exec(toHereDocument(command))?.[3]?.slice(0, -1);
  if (patch === undefined || !/^\s*\*\*\* Begin Patch[ \t]*\n/.test(patch)) return undefined;
  const folder = folderMatch ? (folderMatch[1] ?? folderMatch[2] ?? folderMatch[3] ?? "") : "";
  return movePatch(patch, folder.startsWith("/") ? folder : posix.join(workdir ?? "", folder));
}

/** Reduces the three usual forms with a here-document to it. Any other line gives an empty text. */
function toHereDocument(line: string): string {
  const direct = /^apply_?patch\s*(?=<<)/.exec(line);
  if (direct) return line.slice(direct[0].length);
  const piped = /^cat\s*(<<-?[ \t]*(['"]?)\w+\2)[ \t]*\|[ \t]*apply_?patch[ \t]*(?=\n)/.exec(line);
  if (piped) return `${piped[1]}${line.slice(piped[0].length)}`;
  const substituted = /^apply_?patch\s+"\$\(cat\s*(<<[^]*)\n\s*\)"$/.exec(line);
  return substituted?.[1] ?? "";
}

/** Makes the relative paths of a patch relative to the parent of `folder`. */
function movePatch(patch: string, folder: string): string {
  if (folder === "" || folder === ".") return patch;
  return patch
    .split("\n")
    .map((line) =>
      line.replace(FILE_LINE, (_, header: string, path: string) =>
        path.startsWith("/") ? line : `${header}${posix.join(folder, path)}`,
      ),
    )
    .join("\n");
}
