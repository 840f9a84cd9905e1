import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { editText } from "../../../src/hostile/apply-edit.js";
import { EDIT_SLIPS, type EditSlip } from "../../helpers/edit-slips.js";
import { fc } from "../../helpers/properties.js";

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
    (lines) => ["", ...lines, ""],
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
        const wanted = bare(target.join("\n"));
        const lines = file.split(end);
        // Wherever the asked lines could be meant to be; a shorter text may be in more places.
        const places = lines.flatMap((_, at) => {
          const size = target.length;
          return bare(lines.slice(at, at + size).join("\n")) === wanted ? [at] : [];
        });
        const unchanged = (at: number, size: number): boolean =>
          got.becomes.startsWith(lines.slice(0, at).join(end)) &&
          got.becomes.endsWith(lines.slice(at + size).join(end));
        const exact = file.includes(slip.old) || file.includes(slip.old.replaceAll("\n", "\r\n"));
        if (slips.some((one) => SLIPS.indexOf(one) >= 11) || exact) return;
        // An old text that ends with an empty line also matches where its last line with text is followed by any line.
        const size = target.findLastIndex((line) => line.trim() !== "") + 1;
        const text = bare(target.slice(0, size).join("\n"));
        const hasText = (at: number): boolean => size > 0 && bare(lines.slice(at, at + size).join("\n")) === text;
        assert.ok(
          places.some((at) => unchanged(at, target.length)) ||
            lines.some((_, at) => hasText(at) && unchanged(at, size)),
          JSON.stringify({ ...slip, ...got }),
        );
        // Two places that no slip tells apart are not chosen between.
        const raws = places.map((at) => lines.slice(at, at + target.length).join("\n"));
        if (raws.length > 1) assert.ok(new Set(raws).size > 1, JSON.stringify({ ...slip, ...got }));
      }),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(counted.landed > 100 && counted.refused > 100, JSON.stringify(counted));
  });
});
