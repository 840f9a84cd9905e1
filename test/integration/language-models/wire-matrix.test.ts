import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, afterEach, before, describe, it } from "node:test";
import { AiSdkProvider, PRESETS, WIRES } from "gantry/adapters/language-models";
import { startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, SITUATIONS, WIRE_MODELS } from "../../helpers/model-situations.js";

const API_KEY = "sk-matrix-0123456789abcdef";

for (const wire of WIRES) {
  describe(`model situations on the wire ${wire}`, () => {
    let server: FakeModelServer;
    let provider: AiSdkProvider;
    before(async () => {
      server = await startFakeModelServer({ apiKey: API_KEY });
      provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: API_KEY });
    });
    afterEach(() => {
      assert.deepEqual(server.violations, []);
      assert.equal(server.queuedCount, 0);
    });
    after(async () => {
      await provider.close();
      await server.close();
    });
    for (const { name, exceptions, run } of SITUATIONS) {
      if (exceptions?.[wire] !== undefined) continue;
      it(name, () => run({ wire, model: WIRE_MODELS[wire], server, provider, key: API_KEY }));
    }
  });
}

it("docs/models.md has a table row for each situation and each preset", async () => {
  const text = (await readFile(new URL("../../../docs/models.md", import.meta.url), "utf8")).replaceAll(/ +/g, " ");
  for (const { name, exceptions } of SITUATIONS) {
    const cells = WIRES.map((wire) => (exceptions?.[wire] === undefined ? "yes" : `none: ${exceptions[wire]}`));
    assert.ok(text.includes(`| ${name} | ${cells.join(" | ")} |`), name);
  }
  for (const { id, name, wire } of PRESETS) assert.ok(text.includes(`| \`${id}\` | ${name} | ${wire} |`), id);
});
