import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { startModelServer } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";

describe("gantry init at a terminal", { skip: NO_TMUX }, () => {
  it("asks for the key without showing it, and for the model", async (t) => {
    const modelServer = await startModelServer(t);
    const args = ["init", "--provider", "lab", "--base-url", modelServer.baseUrl];
    const pane = await openPane(t, { args });
    await pane.waitForScreen(/Key of lab \(not shown\):/);
    await pane.type("key-of-the-lab");
    await pane.sendKeys("Enter");
    const screen = await pane.waitForScreen(/Models: m1\s+Model \[any\]:/);
    assert.doesNotMatch(screen, /key-of/);
    await pane.type("m1");
    await pane.sendKeys("Enter");
    const { code } = await pane.waitForExit();
    assert.equal(code, 0);
    const config: unknown = JSON.parse(readFileSync(path.join(pane.home, "config.json"), "utf8"));
    assert.deepEqual(config, {
      providers: [{ name: "lab", base_url: modelServer.baseUrl, api_key: "key-of-the-lab" }],
      model: { provider: "lab", model: "m1" },
    });
  });

  it("lists the known providers, and writes nothing after Ctrl+C", async (t) => {
    const pane = await openPane(t, { args: ["init"], env: { GROQ_API_KEY: "key-of-groq" } });
    const screen = await pane.waitForScreen(/Provider \[\S+\]:/);
    assert.match(screen, /groq +Groq, key in GROQ_API_KEY/);
    assert.match(screen, /Known providers: anthropic, openai, google/);
    await pane.sendKeys("C-c");
    assert.equal((await pane.waitForExit()).code, 130);
    assert.equal(existsSync(path.join(pane.home, "config.json")), false);
  });
});
