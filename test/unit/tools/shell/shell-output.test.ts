import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Redactor } from "gantry/plugin";
import { LiveOutput, cleanOutput } from "../../../../src/tools/shell/shell-output.js";
import { pause } from "../../../helpers/server-runs.js";
import { createRandom } from "../../../helpers/random.js";

const SEED_COUNT = Number(process.env["SEEDS"] ?? 15);
const KEY = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
const SHORT_KEY = 'pa"s5';
const redactor = new Redactor([KEY, SHORT_KEY]);

/** Time: waits longer than the report interval of `LiveOutput`, whose timer was set earlier and fires first. */
const waitForReport = (): Promise<void> => pause(2);

/** Returns the text that is reported for output in these pieces. Waits for a report at each `null`. */
async function getReportedText(
  pieces: readonly (string | Buffer | null)[],
  outputRedactor = redactor,
): Promise<string> {
  let text = "";
  const liveOutput = new LiveOutput(outputRedactor, (addition) => (text += addition), 0);
  for (const piece of pieces) {
    if (piece === null) await waitForReport();
    else liveOutput.push(Buffer.from(piece));
  }
  await waitForReport();
  liveOutput.end();
  return text;
}

/** Splits the bytes into random pieces. Some pieces are followed by `null`, which stands for a delay. */
function splitRandomly(text: string, random: () => number): (Buffer | null)[] {
  const bytes = Buffer.from(text);
  const pieces: (Buffer | null)[] = [];
  const maxPieceBytes = random() < 0.5 ? 7 : 60;
  for (let offset = 0; offset < bytes.length;) {
    const end = offset + 1 + Math.floor(random() * maxPieceBytes);
    pieces.push(bytes.subarray(offset, end));
    if (random() < 0.4) pieces.push(null);
    offset = end;
  }
  return pieces;
}

const TEXT_PIECES = [
  "compiling ",
  "ok\n",
  "é",
  "🙂🙃",
  "日本語",
  "12%",
  "\n",
  " \t",
  "\0",
  "a-longer-word-of-code(); ",
];

describe("the live output of a command", () => {
  it("is unchanged for any split of its bytes into chunks, except for a short end that is held back", async () => {
    for (let seed = 1; seed <= SEED_COUNT; seed += 1) {
      const random = createRandom(seed);
      const text = Array.from({ length: 30 }, () => TEXT_PIECES[Math.floor(random() * TEXT_PIECES.length)]).join("");
      const reportedText = await getReportedText(splitRandomly(text, random));
      // An end that can be the start of a secret is held back: at most 4 characters, because SHORT_KEY has 5.
      assert.ok(cleanOutput(text).startsWith(reportedText), `seed ${seed}`);
      assert.ok(cleanOutput(text).length - reportedText.length < 5, `seed ${seed}`);
    }
  });

  it("contains no secret, in any encoding or chunking", async () => {
    const base64 = [0, 1, 2].map((lead) => Buffer.from("x".repeat(lead) + KEY + "!").toString("base64"));
    const hex = Buffer.from(KEY).toString("hex");
    const secretForms = [KEY, ...base64.map((text) => text.slice(4, -4))];
    const printedForms = [
      KEY,
      SHORT_KEY,
      ...base64,
      hex.toUpperCase(),
      hex.replace(/../g, "$& "),
      KEY.replace(/.{7}/g, "$&\n"),
      `\u001b[31m${KEY.slice(0, 9)}\u001b[0m${KEY.slice(9)}`,
      KEY.slice(5, 30),
    ];
    for (let seed = 1; seed <= 2 * SEED_COUNT; seed += 1) {
      const random = createRandom(seed);
      const pickRandom = (list: readonly string[]) => list[Math.floor(random() * list.length)]!;
      const text = Array.from({ length: 12 }, () => pickRandom(random() < 0.4 ? printedForms : TEXT_PIECES)).join(
        " | ",
      );
      const reportedText = await getReportedText(splitRandomly(text, random));
      const compactText = reportedText.replace(/[\s:,]+/g, "");
      // No 5 consecutive characters of a form are visible, and no 9 of the hexadecimal form.
      for (const [secretForm, searchedText, minCharacters] of [
        ...secretForms.map((form) => [form, compactText, 5] as const),
        [hex, compactText.toLowerCase(), 9] as const,
      ])
        for (let offset = 0; offset + minCharacters <= secretForm.length; offset += 1)
          assert.ok(
            !searchedText.includes(secretForm.slice(offset, offset + minCharacters)),
            `seed ${seed}: ${secretForm.slice(offset, offset + minCharacters)}`,
          );
      assert.ok(!reportedText.includes(SHORT_KEY.slice(0, 3)), `seed ${seed}`);
    }
  });

  it("holds back only text that may be the start of a secret", async () => {
    assert.equal(await getReportedText([`key: ${KEY}\n`]), "key: [redacted]\n");
    assert.equal(await getReportedText(["a k3y-9fQ2", null]), "a ");
    assert.equal(await getReportedText(["a k3y-9fQ2", null, "? no"]), "a k3y-9fQ2? no");
    assert.equal(await getReportedText([..."1\n2\n3\n"].flatMap((character) => [character, null])), "1\n2\n3\n");
  });

  it("has no colours, and one line for each reported state of a progress bar", async () => {
    assert.equal(
      await getReportedText(["\u001b[1", null, "mbold\u001b[0", null, "m\u001b]0;a-ti", null, "tle\u0007!\n"]),
      "bold!\n",
    );
    assert.equal(
      await getReportedText(["10%\r20%\r", null, "30%\r4", null, "0%\r\n", null, "done\r\n"]),
      "20%\n40%\ndone\n",
    );
    assert.equal(await getReportedText(["a\r\nb\r", null, "\nc\n"]), "a\nb\nc\n");
  });

  it("is limited: if a command prints too fast, `[...]` replaces a part and the end is kept", async () => {
    const line = `${"y ".repeat(30)}${KEY}\n`;
    let maxReportCharacters = 0;
    let text = "";
    const liveOutput = new LiveOutput(
      redactor,
      (addition) => {
        maxReportCharacters = Math.max(maxReportCharacters, addition.length);
        text += addition;
      },
      0,
    );
    // Prints about 130 MB in chunks that begin at different offsets of a line.
    const chunk = Buffer.from(line.repeat(700));
    for (let i = 0; i < 2000; i += 1) {
      liveOutput.push(chunk.subarray(i % 90));
      if (i % 200 === 0) await waitForReport();
    }
    liveOutput.push(Buffer.from("the end\n"));
    await waitForReport();
    liveOutput.end();
    assert.ok(maxReportCharacters < 20 * 1024, `${maxReportCharacters} characters at once`);
    assert.match(text, /\n\[\.\.\.\]\n/);
    assert.match(text, /the end\n$/);
    for (let offset = 0; offset + 5 <= KEY.length; offset += 1)
      assert.ok(!text.includes(KEY.slice(offset, offset + 5)), KEY.slice(offset, offset + 5));
  });
});
