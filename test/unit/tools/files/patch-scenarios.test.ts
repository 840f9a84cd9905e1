import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

type Files = Readonly<Record<string, string>>;
interface Scenario {
  readonly input: Files;
  /** The patch without its first and last line, unless it begins with another text. */
  readonly patch: string;
  /** Default: the input, for a patch that is rejected. */
  readonly expected?: Files;
  readonly error?: RegExp;
}

/**
 * The situations of codex's scenarios for apply_patch, by their names there (openai/codex at 71163530a46d,
 * codex-rs/apply-patch/tests/fixtures/scenarios), with files of this project.
 */
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "001_add_file": { input: {}, patch: "*** Add File: note.md\n+text", expected: { "note.md": "text\n" } },
  "002_multiple_operations": {
    input: { "gone.txt": "x\n", "kept.txt": "a\nb\n" },
    patch: "*** Add File: deep/new.txt\n+new\n*** Delete File: gone.txt\n*** Update File: kept.txt\n@@\n-b\n+B",
    expected: { "deep/new.txt": "new\n", "kept.txt": "a\nB\n" },
  },
  "003_multiple_chunks": {
    input: { "a.txt": "1\n2\n3\n4\n" },
    patch: "*** Update File: a.txt\n@@\n-2\n+two\n@@\n-4\n+four",
    expected: { "a.txt": "1\ntwo\n3\nfour\n" },
  },
  "004_move_to_new_directory": {
    input: { "old/a.txt": "a\n", "old/b.txt": "b\n" },
    patch: "*** Update File: old/a.txt\n*** Move to: new/deep/a.txt\n@@\n-a\n+A",
    expected: { "new/deep/a.txt": "A\n", "old/b.txt": "b\n" },
  },
  "005_rejects_empty_patch": { input: { "a.txt": "a\n" }, patch: "", error: /expected a file to add/ },
  "006_rejects_missing_context": {
    input: { "a.txt": "a\nb\n" },
    patch: "*** Update File: a.txt\n@@\n-missing\n+x",
    error: /was not found/,
  },
  "007_rejects_missing_file_delete": {
    input: { "a.txt": "a\n" },
    patch: "*** Delete File: missing.txt",
    error: /not found/,
  },
  "008_rejects_empty_update_hunk": {
    input: { "a.txt": "a\n" },
    patch: "*** Update File: a.txt",
    error: /expected changes/,
  },
  "009_requires_existing_file_for_update": {
    input: { "a.txt": "a\n" },
    patch: "*** Update File: missing.txt\n@@\n-a\n+b",
    error: /not found/,
  },
  "010_move_overwrites_existing_destination": {
    input: { "old/a.txt": "from\n", "old/b.txt": "b\n", "new/deep/a.txt": "existing\n" },
    patch: "*** Update File: old/a.txt\n*** Move to: new/deep/a.txt\n@@\n-from\n+new",
    expected: { "old/b.txt": "b\n", "new/deep/a.txt": "new\n" },
  },
  "011_add_overwrites_existing_file": {
    input: { "a.txt": "old content\n" },
    patch: "*** Add File: a.txt\n+new content",
    expected: { "a.txt": "new content\n" },
  },
  "012_delete_directory_fails": { input: { "dir/a.txt": "a\n" }, patch: "*** Delete File: dir", error: /folder/ },
  "013_rejects_invalid_hunk_header": {
    input: { "a.txt": "a\n" },
    patch: "*** Rename File: a.txt",
    error: /expected "\*\*\* Add File: PATH"/,
  },
  "014_update_file_appends_trailing_newline": {
    input: { "a.txt": "no end" },
    patch: "*** Update File: a.txt\n@@\n-no end\n+first\n+second",
    expected: { "a.txt": "first\nsecond\n" },
  },
  // codex leaves the first file. Here all files are changed, or none.
  "015_failure_after_partial_success_leaves_changes": {
    input: {},
    patch: "*** Add File: a.txt\n+a\n*** Update File: missing.txt\n@@\n-old\n+new",
    error: /missing\.txt: not found/,
  },
  "016_pure_addition_update_chunk": {
    input: { "a.txt": "1\n2\n" },
    patch: "*** Update File: a.txt\n@@\n+3\n+4",
    expected: { "a.txt": "1\n2\n3\n4\n" },
  },
  "017_whitespace_padded_hunk_header": {
    input: { "a.txt": "old\n" },
    patch: "  *** Update File: a.txt\n@@\n-old\n+new",
    expected: { "a.txt": "new\n" },
  },
  "018_whitespace_padded_patch_markers": {
    input: { "a.txt": "1\n" },
    patch: " *** Begin Patch\n*** Update File: a.txt\n@@\n-1\n+2\n*** End Patch ",
    expected: { "a.txt": "2\n" },
  },
  "019_unicode_simple": {
    input: { "a.txt": "1\nnaïve café\n3\n" },
    patch: "*** Update File: a.txt\n@@\n 1\n-naïve café\n+naïve café ✅",
    expected: { "a.txt": "1\nnaïve café ✅\n3\n" },
  },
  "020_delete_file_success": {
    input: { "kept.txt": "a\n", "gone.txt": "b\n" },
    patch: "*** Delete File: gone.txt",
    expected: { "kept.txt": "a\n" },
  },
  "020_whitespace_padded_patch_marker_lines": {
    input: { "a.txt": "1\n" },
    patch: "*** Begin Patch \n*** Update File: a.txt\n@@\n-1\n+2\n *** End Patch",
    expected: { "a.txt": "2\n" },
  },
  "021_update_file_deletion_only": {
    input: { "a.txt": "1\n2\n3\n" },
    patch: "*** Update File: a.txt\n@@\n 1\n-2\n 3",
    expected: { "a.txt": "1\n3\n" },
  },
  "022_update_file_end_of_file_marker": {
    input: { "a.txt": "first\nsecond\n" },
    patch: "*** Update File: a.txt\n@@\n first\n-second\n+second updated\n*** End of File",
    expected: { "a.txt": "first\nsecond updated\n" },
  },
};

const patchTool = builtinTools().find(({ name }) => name === "apply_patch")!;

async function readFiles(path: string): Promise<Files> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const contents = entries
    .filter((entry) => entry.isFile())
    .map(async (entry) => {
      const file = join(entry.parentPath, entry.name);
      return [file.slice(path.length + 1), await readFile(file, "utf8")] as const;
    });
  return Object.fromEntries(await Promise.all(contents));
}

describe("apply_patch in the situations of codex's scenarios", () => {
  for (const [name, { input, patch, expected = input, error }] of Object.entries(SCENARIOS))
    it(name, async () => {
      await using folder = await createTemporaryFolder();
      for (const [path, content] of Object.entries(input)) {
        await mkdir(dirname(join(folder.path, path)), { recursive: true });
        await writeFile(join(folder.path, path), content);
      }
      const fullPatch = patch.includes("Begin Patch") ? patch : `*** Begin Patch\n${patch}\n*** End Patch`;
      const call = (async () => callTool(patchTool, { input: fullPatch }, createToolContext(folder.path)))();
      if (error) await assert.rejects(call, error);
      else await call;
      assert.deepEqual(await readFiles(folder.path), expected);
    });
});
