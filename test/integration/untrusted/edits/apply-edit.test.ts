import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { INEXACT_EDITS, type InexactEdit } from "../../../helpers/inexact-edits.js";
import { fc } from "../../../helpers/fast-check.js";

const MAX_FILE_BYTES = 10 * 1024 * 1024;

function applyEdit({
  file,
  oldText,
  replacementText,
  replacesAll = false,
}: InexactEdit): { newText: string; report: string } | { errorMessage: string } {
  const edits = [{ old_string: oldText, new_string: replacementText, replace_all: replacesAll }];
  const editResult = editText({
    content: new Uint8Array(Buffer.from(file)),
    edits,
    name: "a",
    maxBytes: MAX_FILE_BYTES,
  });
  if ("errorMessage" in editResult) return editResult;
  return { newText: Buffer.from(editResult.content).toString(), report: editResult.descriptions.join() };
}

describe("editText() with an inexact copy of the text", () => {
  for (const edit of INEXACT_EDITS)
    it(`${edit.expectedFileText === undefined ? "rejects" : "applies"}: ${edit.name}`, () => {
      const result = applyEdit(edit);
      if (edit.expectedFileText !== undefined) {
        assert.ok("newText" in result, JSON.stringify(result));
        assert.equal(result.newText, edit.expectedFileText);
      } else {
        assert.ok("errorMessage" in result, JSON.stringify(result));
        assert.match(result.errorMessage, edit.expectedError!);
      }
    });
});

describe("random inexact copies of a text", () => {
  const LINE_PIECES = [
    "total",
    "sum(values)",
    "if (a)",
    "“quoted”",
    '"plain"',
    "it’s",
    "it's",
    "a – b",
    "a - b",
    "x\u00A0y",
    "{",
    "}",
  ];
  const line = fc
    .tuple(
      fc.constantFrom("", "  ", "    ", "      ", "\t", "\t\t"),
      fc.array(fc.constantFrom(...LINE_PIECES), { minLength: 1, maxLength: 4 }),
      fc.constantFrom("", "", " ", "\t "),
    )
    .map(([indent, words, blanks]) => indent + words.join(" ") + blanks);
  const block = fc.array(fc.oneof({ weight: 6, arbitrary: line }, fc.constantFrom("", "  ")), {
    minLength: 1,
    maxLength: 5,
  });

  const addBlankEnds = (lines: string[]): string[] => ["", ...lines, ""];

  /** Typical changes that a model makes to lines that it copies. */
  const MUTATIONS: ((lines: string[]) => string[])[] = [
    (lines) => lines.map((line) => line.trimEnd()),
    (lines) => lines.map((line) => `${line} `),
    (lines) => lines.map((line) => (line.trim() === "" ? line : `  ${line}`)),
    (lines) => lines.map((line) => line.replace(/^ {2}/, "")),
    (lines) => lines.map((line) => line.replace(/^\t+/, (tabs) => "    ".repeat(tabs.length))),
    (lines) => lines.map((line) => line.replace(/[“”]/g, '"').replaceAll("’", "'").replaceAll("–", "-")),
    (lines) => lines.map((line) => line.replaceAll("\u00A0", " ")),
    (lines) => lines.map((line) => line.replace(/(\S) (\S)/g, "$1  $2")),
    (lines) => lines.map((line, index) => `${index + 7}\t${line}`),
    (lines) => ["```", ...lines, "```"],
    addBlankEnds,
    (lines) => lines.map((line) => line.trim()),
    (lines) => [...lines].reverse(),
    (lines) => lines.slice(1),
    (lines) => [lines.join("\\n")],
  ];
  /** Removes blanks and replaces typographic characters, which an inexact match ignores. */
  const normalize = (text: string): string =>
    text
      .replace(/[“”]/g, '"')
      .replaceAll("’", "'")
      .replaceAll("–", "-")
      .replace(/[^\S\n]/g, "");

  const cases = fc.record({
    linesBefore: block,
    target: block,
    linesAfter: block,
    /**
     * If set, the file contains the target a second time, with this mutation. One of the mutations that keep the number
     * of lines.
     */
    copyMutation: fc.option(fc.constantFrom(...MUTATIONS.slice(0, 8)), { nil: undefined }),
    mutations: fc.array(fc.constantFrom(...MUTATIONS), { minLength: 1, maxLength: 2 }),
    lineEnd: fc.constantFrom("\n", "\r\n"),
    change: fc.constantFrom<(lines: string[]) => string[]>(
      (lines) => lines.map((line, index) => (index === 0 ? line.replace(/\S/, "changed $&") : line)),
      (lines) => [...lines, "added()"],
      (lines) => lines.slice(0, -1),
      (lines) => ["other", "lines"].concat(lines.slice(1)),
    ),
  });

  it("are replaced at their own position or rejected, and all other text stays", () => {
    const counts = { applied: 0, rejected: 0 };
    fc.assert(
      fc.property(cases, ({ linesBefore, target, linesAfter, copyMutation, mutations, lineEnd, change }) => {
        const secondCopy = copyMutation?.(target) ?? [];
        const file = [...linesBefore, "// 1", ...target, "// 2", ...linesAfter, "// 3", ...secondCopy, "// 4"].join(
          lineEnd,
        );
        const copiedLines = mutations.reduce((lines, mutate) => mutate(lines), target);
        const newLines = mutations.reduce((lines, mutate) => mutate(lines), change(target));
        const edit = { name: "", file, oldText: copiedLines.join("\n"), replacementText: newLines.join("\n") };
        if (edit.oldText === "") return;
        const result = applyEdit(edit);
        if ("errorMessage" in result) return void counts.rejected++;
        counts.applied++;
        const lines = file.split(lineEnd);
        const isExact = file.includes(edit.oldText) || file.includes(edit.oldText.replaceAll("\n", "\r\n"));
        // The position is not checked for exact copies, nor for the mutations from index 11 on, which lose text.
        if (mutations.some((mutation) => MUTATIONS.indexOf(mutation) >= 11) || isExact) return;
        // `edit` ignores blank lines at the ends of a text, so the lines between them decide the position.
        const isBlank = (line: string | undefined): boolean => line?.trim() === "";
        const firstLine = target.findIndex((line) => !isBlank(line));
        const lastLine = target.findLastIndex((line) => !isBlank(line));
        const lineCount = lastLine - firstLine + 1;
        const readLines = (lineIndex: number): string => lines.slice(lineIndex, lineIndex + lineCount).join("\n");
        const expectedText = normalize(target.slice(firstLine, lastLine + 1).join("\n"));
        const positions = [...lines.keys()].filter(
          (position) => firstLine >= 0 && normalize(readLines(position)) === expectedText,
        );
        // Counts the blank lines next to a position, up to the number in the text.
        const addedBlankCount = mutations.filter((mutation) => mutation === addBlankEnds).length;
        const countBlankLinesFrom = (lineIndex: number, step: -1 | 1, maxCount: number): number => {
          let count = 0;
          while (count < maxCount && isBlank(lines[lineIndex + count * step])) count++;
          return count;
        };
        const countAdjacentBlankLines = (position: number): [number, number] => [
          countBlankLinesFrom(position - 1, -1, firstLine + addedBlankCount),
          countBlankLinesFrom(position + lineCount, 1, target.length - 1 - lastLine + addedBlankCount),
        ];
        const changedPositions = positions.filter((position) => {
          const [blanksBefore, blanksAfter] = countAdjacentBlankLines(position);
          return (
            result.newText.startsWith(lines.slice(0, position - blanksBefore).join(lineEnd)) &&
            result.newText.endsWith(lines.slice(position + lineCount + blanksAfter).join(lineEnd))
          );
        });
        assert.ok(changedPositions.length > 0, JSON.stringify({ ...edit, ...result }));

        // An edit must be rejected as ambiguous if two positions have the same text and the same blank lines next
        // to them.
        const describePosition = (position: number): string =>
          JSON.stringify([readLines(position), countAdjacentBlankLines(position)]);
        const isUnique = changedPositions.some(
          (changedPosition) =>
            positions.filter((position) => describePosition(position) === describePosition(changedPosition)).length ===
            1,
        );
        assert.ok(isUnique, JSON.stringify({ ...edit, ...result }));
      }),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(counts.applied > 100 && counts.rejected > 100, JSON.stringify(counts));
  });
});
