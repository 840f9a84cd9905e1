import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir } from "../../../helpers/temp-dir.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

describe("the listener for background commands", () => {
  it("is registered once by the first run, without a watcher", async (t) => {
    const folder = await tempDir(t);
    const tools = builtinTools({ env, bash: { sandbox: "off" } });
    const { background } = tools.find(({ name }) => name === "bash")!;
    let listenerCount = 0;
    const onChange = background!.onChange.bind(background);
    background!.onChange = (listener) => ((listenerCount += 1), onChange(listener));
    const provider = new ScriptedProvider([callTools(["bash", { command: "true", background: true }]), "done"]);
    const agent = new Agent({ providers: [provider], tools, projectDir: folder.path });
    t.after(() => agent.close());
    await (
      await agent.run({ message: "go" })
    ).result;
    assert.equal(listenerCount, 1);
  });
});
