import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { ThinkTags } from "../../../adapters/language-models/think-tags.js";
import { textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { createRequest, readAnswer } from "../../helpers/model-requests.js";

function separateReasoning(pieces: readonly string[]): { reasoning: string; text: string } {
  const tags = new ThinkTags();
  const entries = [...pieces.flatMap((piece) => tags.push(piece)), ...tags.end()];
  const joinEntries = (kind: string): string =>
    entries.map((entry) => (entry.kind === kind ? entry.text : "")).join("");
  return { reasoning: joinEntries("reasoning"), text: joinEntries("text") };
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
  it("is separated from the answer for each split of the text into pieces", () => {
    for (const [answer, reasoning, text] of answers) {
      assert.deepEqual(separateReasoning([answer]), { reasoning, text }, answer);
      assert.deepEqual(separateReasoning([...answer]), { reasoning, text }, answer);
      for (let splitIndex = 1; splitIndex < answer.length; splitIndex++)
        assert.deepEqual(
          separateReasoning([answer.slice(0, splitIndex), answer.slice(splitIndex)]),
          { reasoning, text },
          answer,
        );
    }
  });

  it("becomes a reasoning part before the text, unless the model already sent reasoning", async () => {
    const server = await startFakeModelServer();
    const provider = new AiSdkProvider({ name: "lab", baseUrl: server.baseUrl });
    try {
      server.enqueue(textStep(["<thi", "nk>Let me", " see.</think>\n", "\nHello", "!"]), textStep("<t"), {
        say: [{ reasoning: "Told apart." }, { text: "<think>is a tag" }],
      });
      const { message } = await readAnswer(provider, createRequest());
      assert.deepEqual(message.parts, [
        {
          type: "reasoning",
          text: "Let me see.",
          opaque: { provider: "lab", model: "m1", data: { gantry: { echo: true } } },
        },
        { type: "text", text: "Hello!" },
      ]);
      assert.equal((await readAnswer(provider, createRequest())).text, "<t");
      assert.equal((await readAnswer(provider, createRequest())).text, "<think>is a tag");
    } finally {
      await provider.close();
      await server.close();
    }
  });
});
