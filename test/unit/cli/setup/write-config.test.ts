import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { lstat, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { changeConfig, writeProvider } from "../../../../src/cli/setup/write-config.js";
import { parseJsonc } from "../../../../src/serve/parse-jsonc.js";
import { tempDir } from "../../../helpers/temp-dir.js";

const OPENAI = { provider: "openai", api_key: "${OPENAI_API_KEY}" };

describe("a provider in the config", () => {
  it("is added, and becomes the preferred one", () => {
    assert.deepEqual(JSON.parse(changeConfig("{}\n", OPENAI, "")), {
      providers: [OPENAI],
      model: { provider: "openai" },
    });
    const content = JSON.stringify({ providers: [{ name: "lab" }], model: { provider: "lab", model: "m1" } });
    assert.deepEqual(JSON.parse(changeConfig(content, OPENAI, "gpt-5")), {
      providers: [{ name: "lab" }, OPENAI],
      model: { provider: "openai", model: "gpt-5" },
    });
  });

  it("replaces the fields of its entry, and keeps other keys and comments", () => {
    const content = `{
  // the port of the team
  "server": { "port": 8090 },
  "providers": [
    { "provider": "openai", "timeout": 5, "api_key": "old" }, // mine
  ],
}
`;
    assert.equal(
      changeConfig(content, OPENAI, ""),
      `{
  // the port of the team
  "server": { "port": 8090 },
  "providers": [
    { "provider": "openai", "timeout": 5, "api_key": "\${OPENAI_API_KEY}" }, // mine
  ],
  "model": {
    "provider": "openai"
  },
}
`,
    );
    const list = '{\n  "providers": [\n    { "name": "lab" }, // ours\n  ],\n}\n';
    const { providers } = parseJsonc(changeConfig(list, OPENAI, ""), "c.json") as { providers: unknown };
    assert.deepEqual(providers, [{ name: "lab" }, OPENAI]);
  });

  it("removes a model of the previous provider", () => {
    const content = JSON.stringify({ model: { provider: "lab", model: "m1" } });
    assert.deepEqual((JSON.parse(changeConfig(content, OPENAI, "")) as { model: object }).model, {
      provider: "openai",
      model: "",
    });
  });

  it("is written with mode 0600, through a link, without another file", async (t) => {
    const folder = await tempDir(t, { "real.json": "{}" });
    await symlink(folder.at("real.json"), folder.at("config.json"));
    writeProvider(folder.at("config.json"), OPENAI, "");
    assert.ok((await lstat(folder.at("config.json"))).isSymbolicLink());
    assert.equal(statSync(folder.at("real.json")).mode & 0o777, 0o600);
    assert.throws(() => writeProvider(folder.at("none/config.json"), OPENAI, ""), {
      code: "config",
      message: `${folder.at("none/config.json")}: cannot be written (ENOENT)`,
    });
  });
});
