import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { captureFirstRequest, countJsonBytes, FAMILY_MODELS, type ChatBody } from "../../../helpers/first-request.js";

/** Maximum size of the first request of a session in an empty folder. */
const MAX_REQUEST_BYTES = 10_000;

describe("the first request of a session in an empty folder", () => {
  for (const { family, id, wire } of FAMILY_MODELS)
    for (const usedWire of new Set([wire, "openai"] as const))
      for (const isAttended of [false, true])
        it(`has at most 10,000 bytes: ${family}, ${usedWire}, ${isAttended ? "attended" : "unattended"}`, async () => {
          const bytes = countJsonBytes(await captureFirstRequest(id, usedWire, isAttended));
          assert.ok(bytes <= MAX_REQUEST_BYTES, `${bytes} bytes; test/bench/prompt-size.ts lists them`);
          // A request without instructions or tools would be as small.
          assert.ok(bytes > MAX_REQUEST_BYTES / 2, `${bytes} bytes`);
        });

  it("offers all built-in tools that suit the model, each with a description", async () => {
    const { tools } = (await captureFirstRequest("deepseek-chat", "openai", true)) as ChatBody;
    assert.deepEqual(
      tools.map(({ function: { name } }) => name),
      (
        "ask_user bash bash_input bash_output bash_stop delete edit glob grep list multiedit read task todoread todowrite " +
        "webfetch write"
      ).split(" "),
    );
    for (const {
      function: { name, description },
    } of tools)
      assert.ok(description.length > 10, name);
  });
});
