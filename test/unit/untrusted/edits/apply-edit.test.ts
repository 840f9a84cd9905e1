import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { INEXACT_EDITS, type InexactEdit } from "../../../helpers/inexact-edits.js";
import { fc } from "../../../helpers/properties.js";

const MAX = 10 * 1024 * 1024;

function outcome({
  file,
  old,
  fresh,
  all = false,
}: InexactEdit): { becomes: string; done: string } | { refused: string } {
  const edits = [{ old_string: old, new_string: fresh, replace_all: all }];
  const edited = editText({ content: new Uint8Array(Buffer.from(file)), edits, name: "a", maxBytes: MAX });
  if ("refused" in edited) return edited;
  return { becomes: Buffer.from(edited.content).toString(), done: edited.done.join() };
}

describe("editText() with an inexact copy of the text", () => {
  for (const edit of INEXACT_EDITS)
    it(`${edit.becomes === undefined ? "rejects" : "applies"}: ${edit.name}`, () => {
      const got = outcome(edit);
      if (edit.becomes !== undefined) {
        assert.ok("becomes" in got, JSON.stringify(got));
        assert.equal(got.becomes, edit.becomes);
      } else {
        assert.ok("refused" in got, JSON.stringify(got));
        assert.match(got.refused, edit.refused!);
      }
    });
});

describe("random inexact copies of a text", () => {
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
    (lines) => lines.map((line, at) => `${at + 7}\t${line}`),
    (lines) => ["```", ...lines, "```"],
    addBlankEnds,
    (lines) => lines.map((line) => line.trim()),
    (lines) => [...lines].reverse(),
    (lines) => lines.slice(1),
    (lines) => [lines.join("\\n")],
  ];
  /** Removes everything that could distinguish two places. */
  const bare = (text: string): string =>
    text
      .replace(/[“”]/g, '"')
      .replaceAll("’", "'")
      .replaceAll("–", "-")
      .replace(/[^\S\n]/g, "");

  const cases = fc.record({
    before: block,
    target: block,
    after: block,
    /** The target occurs twice, the second time with a mutation. */
    twin: fc.option(fc.constantFrom(...MUTATIONS.slice(0, 8)), { nil: undefined }),
    mutations: fc.array(fc.constantFrom(...MUTATIONS), { minLength: 1, maxLength: 2 }),
    end: fc.constantFrom("\n", "\r\n"),
    change: fc.constantFrom<(lines: string[]) => string[]>(
      (lines) => lines.map((line, at) => (at === 0 ? line.replace(/\S/, "changed $&") : line)),
      (lines) => [...lines, "added()"],
      (lines) => lines.slice(0, -1),
      (lines) => ["other", "lines"].concat(lines.slice(1)),
    ),
  });

  it("are replaced at their own position or rejected, and all other text stays", () => {
    const counted = { landed: 0, refused: 0 };
    fc.assert(
      fc.property(cases, ({ before, target, after, twin, mutations, end, change }) => {
        const copy = twin?.(target) ?? [];
        const file = [...before, "// 1", ...target, "// 2", ...after, "// 3", ...copy, "// 4"].join(end);
        const copiedLines = mutations.reduce((lines, mutate) => mutate(lines), target);
        const fresh = mutations.reduce((lines, mutate) => mutate(lines), change(target));
        const edit = { name: "", file, old: copiedLines.join("\n"), fresh: fresh.join("\n") };
        if (edit.old === "") return;
        const got = outcome(edit);
        if ("refused" in got) return void counted.refused++;
        counted.landed++;
        const lines = file.split(end);
        const exact = file.includes(edit.old) || file.includes(edit.old.replaceAll("\n", "\r\n"));
        if (mutations.some((mutation) => MUTATIONS.indexOf(mutation) >= 11) || exact) return;
        // `edit` ignores blank lines at the ends of a text, so the lines between them decide the place.
        const isBlank = (line: string | undefined): boolean => line?.trim() === "";
        const first = target.findIndex((line) => !isBlank(line));
        const last = target.findLastIndex((line) => !isBlank(line));
        const size = last - first + 1;
        const raw = (at: number): string => lines.slice(at, at + size).join("\n");
        const expectedText = bare(target.slice(first, last + 1).join("\n"));
        const places = [...lines.keys()].filter((at) => first >= 0 && bare(raw(at)) === expectedText);
        // Counts the blank lines beside a place, up to the number in the text.
        const added = mutations.filter((mutation) => mutation === addBlankEnds).length;
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
          const [before, after] = blanks(at);
          return (
            got.becomes.startsWith(lines.slice(0, at - before).join(end)) &&
            got.becomes.endsWith(lines.slice(at + size + after).join(end))
          );
        });
        assert.ok(landed.length > 0, JSON.stringify({ ...edit, ...got }));
        // Two places that differ neither in their text nor in the blank lines beside them must be rejected as
        // ambiguous.
        const seen = (at: number): string => JSON.stringify([raw(at), blanks(at)]);
        const alone = landed.some((at) => places.filter((place) => seen(place) === seen(at)).length === 1);
        assert.ok(alone, JSON.stringify({ ...edit, ...got }));
      }),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(counted.landed > 100 && counted.refused > 100, JSON.stringify(counted));
  });
});
