import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { ThinkTags } from "../../../adapters/language-models/think-tags.js";
import { say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { ask, take } from "../../helpers/model-requests.js";

function separate(pieces: readonly string[]): { reasoning: string; text: string } {
  const tags = new ThinkTags();
  const entries = [...pieces.flatMap((piece) => tags.push(piece)), ...tags.end()];
  const of = (kind: string): string => entries.map((entry) => (entry.kind === kind ? entry.text : "")).join("");
  return { reasoning: of("reasoning"), text: of("text") };
}

describe("reasoning in think tags", () => {
  const answers: [answer: string, reasoning: string, text: string][] = [
    ["<think>hm</think>\n\nYes.", "hm", "Yes."],
    ["\n<think>\na < b </thin k> c</think>Yes <think>no</think>", "\na < b </thin k> c", "Yes <think>no</think>"],
    ["Plain <think>x</think>", "", "Plain <think>x</think>"],
    ["<thin", "", "<thin"],
    ["<think>never closed </thi", "never closed </thi", ""],
    ["<think></think>Yes", "", "Yes"],
    ["  indented", "", "  indented"],
    ["", "", ""],
  ];
  it("is separated from the answer, wherever the text is split into pieces", () => {
    for (const [answer, reasoning, text] of answers) {
      assert.deepEqual(separate([answer]), { reasoning, text }, answer);
      assert.deepEqual(separate([...answer]), { reasoning, text }, answer);
      for (let at = 1; at < answer.length; at++)
        assert.deepEqual(separate([answer.slice(0, at), answer.slice(at)]), { reasoning, text }, answer);
    }
  });

  it("becomes a reasoning part before the text, unless the model already sent reasoning", async () => {
    const server = await startFakeModelServer();
    const provider = new AiSdkProvider({ name: "lab", baseUrl: server.baseUrl });
    try {
      server.enqueue(say(["<thi", "nk>Let me", " see.</think>\n", "\nHello", "!"]), say("<t"), {
        say: [{ reasoning: "Told apart." }, { text: "<think>is a tag" }],
      });
      const { message } = await take(provider, ask());
      assert.deepEqual(message.parts, [
        {
          type: "reasoning",
          text: "Let me see.",
          opaque: { provider: "lab", model: "m1", data: { gantry: { echo: true } } },
        },
        { type: "text", text: "Hello!" },
      ]);
      assert.equal((await take(provider, ask())).text, "<t");
      assert.equal((await take(provider, ask())).text, "<think>is a tag");
    } finally {
      await provider.close();
      await server.close();
    }
  });
});
