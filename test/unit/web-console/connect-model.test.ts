import assert from "node:assert/strict";
import test from "node:test";
import { findPreset } from "gantry/adapters/language-models";
import { COMMON_PROVIDERS } from "../../../adapters/web-console/app/common-providers.js";

test("the settings name providers as the presets do, with their usual key variables", () => {
  for (const [id, name, keyVariable] of COMMON_PROVIDERS) {
    const preset = findPreset(id);
    assert.deepEqual([preset?.name, preset?.keyVariables[0] ?? ""], [name, keyVariable], id);
  }
});
