import assert from "node:assert/strict";
import { it } from "node:test";
import { listLoadedModules } from "../helpers/loaded-files.js";

it("a server loads OpenTelemetry only with the section telemetry", async (t) => {
  const listPackages = async (config: Record<string, unknown>) => {
    const { packages } = await listLoadedModules(t, {
      args: ["serve", "--port", "0"],
      readyPattern: /listening on/,
      config: { providers: [{ provider: "offline" }], ...config },
    });
    return packages.filter((name) => name.startsWith("@opentelemetry/"));
  };
  assert.deepEqual(await listPackages({}), []);
  assert.ok((await listPackages({ telemetry: { prometheus: true } })).includes("@opentelemetry/sdk-metrics"));
});
