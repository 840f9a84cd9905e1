import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { silentLogger } from "../../../src/base/log.js";
import { describeFailure } from "../../../src/cli/failure-message.js";
import { compose } from "../../../src/serve/compose.js";
import { loadConfig } from "../../../src/serve/config.js";
import { tempDir } from "../../helpers/temp-dir.js";

const LAB = { name: "lab", driver: "openai", base_url: "http://127.0.0.1:9/v1", api_key: "x", models: ["m1"] };

/** Composes a process with this config, and stops it. */
async function composeWith(t: TestContext, config: object): Promise<void> {
  const home = await tempDir(t, { "config.json": JSON.stringify(config) });
  const loadedConfig = await loadConfig({ home: home.path });
  const composition = await compose({
    loadedConfig,
    home: home.path,
    projectDir: home.path,
    logger: silentLogger,
    isProcessLocal: true,
  });
  await composition.stop();
}

/** Returns the error of a config as the command line shows it. */
async function getShownError(t: TestContext, config: object): Promise<string> {
  return composeWith(t, config).then(
    () => assert.fail("the config is accepted"),
    (error: unknown) => describeFailure(error, "run"),
  );
}

describe("`model.provider`", () => {
  it("is rejected with the nearest name if no provider can have the name", async (t) => {
    assert.match(
      await getShownError(t, { model: { provider: "opnai" } }),
      /config\.json: model\.provider: expected one of anthropic, openai, google, .*, got "opnai"; did you mean openai\?$/,
    );
    assert.match(
      await getShownError(t, { providers: [LAB], model: { provider: "labb" } }),
      /: model\.provider: expected one of lab, got "labb"; did you mean lab\?$/,
    );
    // The list of providers excludes all presets that it does not contain.
    assert.match(
      await getShownError(t, { providers: [LAB], model: { provider: "openai" } }),
      /: model\.provider: expected one of lab, got "openai"$/,
    );
  });

  it("is accepted for a configured provider, for `offline`, and for a preset whose key is not set", async (t) => {
    await composeWith(t, { providers: [LAB], model: { provider: "lab" } });
    await composeWith(t, { model: { provider: "offline" } });
    await composeWith(t, { model: { provider: "perplexity" } });
  });
});

it("an unknown driver of a provider names the wire protocols, and the nearest of them", async (t) => {
  assert.match(
    await getShownError(t, { providers: [{ driver: "opnai" }] }),
    /providers\[0\]\.driver: unknown model-provider opnai: expected openai, openai-responses, anthropic, google, .*; did you mean openai\?$/,
  );
});
