import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Redactor } from "gantry/plugin";
import { LiveOutput, tidy } from "../../../../src/tools/shell/shell-output.js";
import { pause } from "../../../helpers/lab.js";
import { randomOf } from "../../../helpers/random.js";

const SEEDS = Number(process.env["SEEDS"] ?? 15);
const KEY = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
const SHORT_KEY = 'pa"s5';
const redactor = new Redactor([KEY, SHORT_KEY]);

/** Time: longer than the interval of `LiveOutput` in these tests. Its timer was set earlier and fires first. */
const nextReport = (): Promise<void> => pause(2);

/** The text that is reported for output in these pieces. At each `null` a report is due. */
async function reportedText(pieces: readonly (string | Buffer | null)[], hidden = redactor): Promise<string> {
  let text = "";
  const live = new LiveOutput(hidden, (addition) => (text += addition), 0);
  for (const piece of pieces) {
    if (piece === null) await nextReport();
    else live.push(Buffer.from(piece));
  }
  await nextReport();
  live.end();
  return text;
}

/** Random pieces of the bytes, with a delay after some pieces. */
function inPieces(text: string, random: () => number): (Buffer | null)[] {
  const bytes = Buffer.from(text);
  const pieces: (Buffer | null)[] = [];
  const longest = random() < 0.5 ? 7 : 60;
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + Math.floor(random() * longest);
    pieces.push(bytes.subarray(at, end));
    if (random() < 0.4) pieces.push(null);
    at = end;
  }
  return pieces;
}

const WORDS = ["compiling ", "ok\n", "é", "🙂🙃", "日本語", "12%", "\n", " \t", "\0", "a-longer-word-of-code(); "];

describe("the live output of a command", () => {
  it("is unchanged, however chunks split its characters, except for a short end that is held back", async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const random = randomOf(seed);
      const text = Array.from({ length: 30 }, () => WORDS[Math.floor(random() * WORDS.length)]).join("");
      const shown = await reportedText(inPieces(text, random));
      // The end is held back if it could be the start of a secret.
      assert.ok(tidy(text).startsWith(shown), `seed ${seed}`);
      assert.ok(tidy(text).length - shown.length < 5, `seed ${seed}`);
    }
  });

  it("contains no secret, in any encoding or chunking", async () => {
    const base64 = [0, 1, 2].map((lead) => Buffer.from("x".repeat(lead) + KEY + "!").toString("base64"));
    const hex = Buffer.from(KEY).toString("hex");
    const readable = [KEY, ...base64.map((text) => text.slice(4, -4))];
    const printed = [
      KEY,
      SHORT_KEY,
      ...base64,
      hex.toUpperCase(),
      hex.replace(/../g, "$& "),
      KEY.replace(/.{7}/g, "$&\n"),
      `\u001b[31m${KEY.slice(0, 9)}\u001b[0m${KEY.slice(9)}`,
      KEY.slice(5, 30),
    ];
    for (let seed = 1; seed <= 2 * SEEDS; seed += 1) {
      const random = randomOf(seed);
      const any = (list: readonly string[]) => list[Math.floor(random() * list.length)]!;
      const text = Array.from({ length: 12 }, () => any(random() < 0.4 ? printed : WORDS)).join(" | ");
      const shown = await reportedText(inPieces(text, random));
      const shape = shown.replace(/[\s:,]+/g, "");
      for (const [form, within, least] of [
        ...readable.map((character) => [character, shape, 5] as const),
        [hex, shape.toLowerCase(), 9] as const,
      ])
        for (let at = 0; at + least <= form.length; at += 1)
          assert.ok(!within.includes(form.slice(at, at + least)), `seed ${seed}: ${form.slice(at, at + least)}`);
      assert.ok(!shown.includes(SHORT_KEY.slice(0, 3)), `seed ${seed}`);
    }
  });

  it("holds back only text that may be the start of a secret", async () => {
    assert.equal(await reportedText([`key: ${KEY}\n`]), "key: [redacted]\n");
    assert.equal(await reportedText(["a k3y-9fQ2", null]), "a ");
    assert.equal(await reportedText(["a k3y-9fQ2", null, "? no"]), "a k3y-9fQ2? no");
    assert.equal(await reportedText([..."1\n2\n3\n"].flatMap((character) => [character, null])), "1\n2\n3\n");
  });

  it("has no colours, and one line for each reported state of a progress bar", async () => {
    assert.equal(
      await reportedText(["\u001b[1", null, "mbold\u001b[0", null, "m\u001b]0;a-ti", null, "tle\u0007!\n"]),
      "bold!\n",
    );
    assert.equal(
      await reportedText(["10%\r20%\r", null, "30%\r4", null, "0%\r\n", null, "done\r\n"]),
      "20%\n40%\ndone\n",
    );
    assert.equal(await reportedText(["a\r\nb\r", null, "\nc\n"]), "a\nb\nc\n");
  });

  it("is limited: if a command prints too fast, `[...]` replaces a part and the end is kept", async () => {
    const line = `${"y ".repeat(30)}${KEY}\n`;
    let most = 0;
    let text = "";
    const live = new LiveOutput(
      redactor,
      (addition) => {
        most = Math.max(most, addition.length);
        text += addition;
      },
      0,
    );
    const chunk = Buffer.from(line.repeat(700));
    for (let i = 0; i < 2000; i += 1) {
      live.push(chunk.subarray(i % 90));
      if (i % 200 === 0) await nextReport();
    }
    live.push(Buffer.from("the end\n"));
    await nextReport();
    live.end();
    assert.ok(most < 20 * 1024, `${most} characters at once`);
    assert.match(text, /\n\[\.\.\.\]\n/);
    assert.match(text, /the end\n$/);
    for (let at = 0; at + 5 <= KEY.length; at += 1)
      assert.ok(!text.includes(KEY.slice(at, at + 5)), KEY.slice(at, at + 5));
  });
});
