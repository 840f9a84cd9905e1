import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startApi } from "../../helpers/http-api.js";
import { startTerminal } from "../../helpers/terminal-screen.js";

describe("the terminal view", () => {
  it("shows a sent prompt while the server is still starting, and only once after the answer", async (t) => {
    const api = await startApi(t, { steps: ["The answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    await screen.waitFor(/gantry the folder[^]*Type a prompt/);
    type("first words");
    await screen.waitFor(/❯ first words/);
    type("\r");
    await screen.waitFor(/gantry the folder\n\n❯ first words\n[^]*\n❯$/m);
    assert.equal(api.provider.requests.length, 0);
    serve();
    await screen.waitFor(/❯ first words\n\n {2}The answer\./);
    assert.equal(screen.text.match(/first words/g)?.length, 1);
  });

  it("puts a rejected prompt back into the editor", async (t) => {
    const api = await startApi(t);
    const { screen, type, serve } = startTerminal(t, api.url, { provider: "none", model: "none" });
    await screen.waitFor(/Type a prompt/);
    type("try it\r");
    await screen.waitFor(/\n\n❯ try it\n[^]*\n❯$/m);
    serve();
    await screen.waitFor(/none[^]*\n❯ try it$/m);
    assert.equal(screen.text.match(/try it/g)?.length, 1);
  });

  it("repaints only the changed row, in one write", async (t) => {
    const api = await startApi(t);
    const { screen, type } = startTerminal(t, api.url);
    await screen.waitFor(/Type a prompt/);
    type("a");
    await screen.waitFor(/❯ a/);
    const row = screen.lines.indexOf("❯ a");
    const paintCount = screen.paintedRows.length;
    type("b漢");
    await screen.waitFor(/❯ ab漢/);
    assert.deepEqual(screen.paintedRows.slice(paintCount), [[row]]);
    assert.equal(screen.lines[row], "❯ ab漢");
  });
});
