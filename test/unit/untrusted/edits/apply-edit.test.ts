import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { EDIT_SLIPS, type EditSlip } from "../../../helpers/edit-slips.js";
import { fc } from "../../../helpers/properties.js";

const MAX = 10 * 1024 * 1024;

function outcome({ file, old, fresh, all = false }: EditSlip): { becomes: string; done: string } | { refused: string } {
  const edits = [{ old_string: old, new_string: fresh, replace_all: all }];
  const edited = editText({ content: new Uint8Array(Buffer.from(file)), edits, name: "a", maxBytes: MAX });
  if ("refused" in edited) return edited;
  return { becomes: Buffer.from(edited.content).toString(), done: edited.done.join() };
}

describe("slips of models", () => {
  for (const slip of EDIT_SLIPS)
    it(slip.name, () => {
      const got = outcome(slip);
      if (slip.becomes !== undefined) {
        assert.ok("becomes" in got, JSON.stringify(got));
        assert.equal(got.becomes, slip.becomes);
      } else {
        assert.ok("refused" in got, JSON.stringify(got));
        assert.match(got.refused, slip.refused!);
      }
    });
});

describe("texts that are not in the file to the letter", () => {
  const WORDS = [
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
      fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 4 }),
      fc.constantFrom("", "", " ", "\t "),
    )
    .map(([indent, words, blanks]) => indent + words.join(" ") + blanks);
  const block = fc.array(fc.oneof({ weight: 6, arbitrary: line }, fc.constantFrom("", "  ")), {
    minLength: 1,
    maxLength: 5,
  });

  const addBlankEnds = (lines: string[]): string[] => ["", ...lines, ""];

  /** What a model makes of lines that it copies. */
  const SLIPS: ((lines: string[]) => string[])[] = [
    (lines) => lines.map((one) => one.trimEnd()),
    (lines) => lines.map((one) => `${one} `),
    (lines) => lines.map((one) => (one.trim() === "" ? one : `  ${one}`)),
    (lines) => lines.map((one) => one.replace(/^ {2}/, "")),
    (lines) => lines.map((one) => one.replace(/^\t+/, (tabs) => "    ".repeat(tabs.length))),
    (lines) => lines.map((one) => one.replace(/[“”]/g, '"').replaceAll("’", "'").replaceAll("–", "-")),
    (lines) => lines.map((one) => one.replaceAll("\u00A0", " ")),
    (lines) => lines.map((one) => one.replace(/(\S) (\S)/g, "$1  $2")),
    (lines) => lines.map((one, at) => `${at + 7}\t${one}`),
    (lines) => ["```", ...lines, "```"],
    addBlankEnds,
    (lines) => lines.map((one) => one.trim()),
    (lines) => [...lines].reverse(),
    (lines) => lines.slice(1),
    (lines) => [lines.join("\\n")],
  ];
  /** Nothing that could tell two places apart. */
  const bare = (text: string): string =>
    text
      .replace(/[“”]/g, '"')
      .replaceAll("’", "'")
      .replaceAll("–", "-")
      .replace(/[^\S\n]/g, "");

  const cases = fc.record({
    before: block,
    target: block,
    behind: block,
    /** The target is there twice, the second time with a slip. */
    twin: fc.option(fc.constantFrom(...SLIPS.slice(0, 8)), { nil: undefined }),
    slips: fc.array(fc.constantFrom(...SLIPS), { minLength: 1, maxLength: 2 }),
    end: fc.constantFrom("\n", "\r\n"),
    change: fc.constantFrom<(lines: string[]) => string[]>(
      (lines) => lines.map((one, at) => (at === 0 ? one.replace(/\S/, "changed $&") : one)),
      (lines) => [...lines, "added()"],
      (lines) => lines.slice(0, -1),
      (lines) => ["other", "lines"].concat(lines.slice(1)),
    ),
  });

  it("are replaced at their own place or nowhere, and nothing beside it changes", () => {
    const counted = { landed: 0, refused: 0 };
    fc.assert(
      fc.property(cases, ({ before, target, behind, twin, slips, end, change }) => {
        const copy = twin?.(target) ?? [];
        const file = [...before, "// 1", ...target, "// 2", ...behind, "// 3", ...copy, "// 4"].join(end);
        const asked = slips.reduce((lines, slip) => slip(lines), target);
        const fresh = slips.reduce((lines, slip) => slip(lines), change(target));
        const slip = { name: "", file, old: asked.join("\n"), fresh: fresh.join("\n") };
        if (slip.old === "") return;
        const got = outcome(slip);
        if ("refused" in got) return void counted.refused++;
        counted.landed++;
        const lines = file.split(end);
        const exact = file.includes(slip.old) || file.includes(slip.old.replaceAll("\n", "\r\n"));
        if (slips.some((one) => SLIPS.indexOf(one) >= 11) || exact) return;
        // `edit` overlooks blank lines at the ends of a text, so the text is wherever the lines between them are.
        const isBlank = (line: string | undefined): boolean => line?.trim() === "";
        const first = target.findIndex((line) => !isBlank(line));
        const last = target.findLastIndex((line) => !isBlank(line));
        const size = last - first + 1;
        const raw = (at: number): string => lines.slice(at, at + size).join("\n");
        const wanted = bare(target.slice(first, last + 1).join("\n"));
        const places = [...lines.keys()].filter((at) => first >= 0 && bare(raw(at)) === wanted);
        // Counts the blank lines beside a place, at most as many as the text has.
        const added = slips.filter((one) => one === addBlankEnds).length;
        const blankLines = (at: number, step: -1 | 1, most: number): number => {
          let count = 0;
          while (count < most && isBlank(lines[at + count * step])) count++;
          return count;
        };
        const blanks = (at: number): [number, number] => [
          blankLines(at - 1, -1, first + added),
          blankLines(at + size, 1, target.length - 1 - last + added),
        ];
        const landed = places.filter((at) => {
          const [before, behind] = blanks(at);
          return (
            got.becomes.startsWith(lines.slice(0, at - before).join(end)) &&
            got.becomes.endsWith(lines.slice(at + size + behind).join(end))
          );
        });
        assert.ok(landed.length > 0, JSON.stringify({ ...slip, ...got }));
        // Two places that neither a slip nor the blank lines beside them tell apart are not chosen between.
        const seen = (at: number): string => JSON.stringify([raw(at), blanks(at)]);
        const alone = landed.some((at) => places.filter((other) => seen(other) === seen(at)).length === 1);
        assert.ok(alone, JSON.stringify({ ...slip, ...got }));
      }),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(counted.landed > 100 && counted.refused > 100, JSON.stringify(counted));
  });
});
