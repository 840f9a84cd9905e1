import assert from "node:assert/strict";
import { chown, mkdir, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { callStep, textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const bubblewrap = findBubblewrap({ env: { PATH: "/usr/bin:/bin" }, network: false });
const KEY = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";

describe("gantry serve", () => {
  it("logs the sandbox of commands; neither commands nor file tools can read the config or the store", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const modelServer = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
    t.after(() => modelServer.close());
    const project = await tempDir(t);
    await mkdir(project.at("conf"));
    const config = {
      session: { path: "conf/store.db" },
      tools: { bash: { sandbox: "required" } },
      providers: [
        { name: "lab", driver: "openai", base_url: modelServer.baseUrl, api_key: KEY, models: [{ id: "m1" }] },
      ],
    };
    await writeFile(project.at("conf/gantry.json"), JSON.stringify(config));
    const server = await startServer(t, {
      projectDir: project.path,
      args: ["serve", "--port", "0", "--config", project.at("conf/gantry.json")],
    });
    await server.waitForOutput(/info commands run in bubblewrap, without network access/, "stderr");
    const command =
      "cat conf/*; mv conf c; echo evil > conf/gantry.json; rm -rf conf; cp -r conf d; cat d/*; ls /proc | grep -c '^[0-9]'; echo done";
    modelServer.enqueue(
      callStep("bash", { command }),
      callStep("read", { path: "conf/gantry.json" }),
      textStep("Done."),
    );
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "Look" }) });
    assert.equal(response.status, 200);
    const sentBodies = JSON.stringify(modelServer.requests.map(({ body }) => body));
    assert.match(sentBodies, /done\\n/);
    assert.ok(
      !sentBodies.includes(KEY) && !sentBodies.includes("base_url") && !sentBodies.includes("SQLite format"),
      sentBodies,
    );
    assert.deepEqual(JSON.parse(await project.read("conf/gantry.json")), config);
  });

  it("does not print a secret that is the value of a wrong config key", async (t) => {
    for (const config of [
      { providers: [{ provider: "openai", api_key: "x", base_url: "${LAB_KEY}" }] },
      { providers: [{ provider: "${LAB_KEY}" }] },
      { session: { driver: "sqlite", durability: "${LAB_KEY}" } },
      { server: { transports: ["${LAB_KEY}"] } },
      { server: { port: "${LAB_KEY}" } },
    ]) {
      const { code, stdout, stderr } = await runGantry(t, ["serve", "--port", "0"], { config, env: { LAB_KEY: KEY } });
      assert.equal(code, 1);
      assert.ok(!(stdout + stderr).includes(KEY.slice(0, 12)), stderr);
      assert.match(stderr, /expected|unknown/);
    }
  });

  it("rejects tools.bash.network: false without a sandbox", async (t) => {
    const config = { tools: { bash: { sandbox: "off", network: false } } };
    const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], { config });
    assert.equal(code, 1);
    assert.match(stderr, /tools\.bash\.network: false needs a sandbox/);
  });

  it("rejects a list of hosts without a sandbox, and an invalid host", async (t) => {
    const cases = [
      { bash: { sandbox: "off", network: ["example.com"] }, fault: /tools\.bash\.network: a list needs a sandbox/ },
      {
        bash: { network: ["https://example.com"] },
        fault: /tools\.bash\.network: expected hosts such as .*, got "https:/,
      },
      { bash: { network: "example.com" }, fault: /tools\.bash\.network: expected true, false or a list of hosts/ },
      {
        bash: { limits: { cpu_seconds: 0 } },
        fault: /tools\.bash\.limits\.cpu_seconds: expected a whole number, at least 1/,
      },
    ];
    for (const { bash, fault } of cases) {
      const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], { config: { tools: { bash } } });
      assert.equal(code, 1);
      assert.match(stderr, fault);
    }
  });

  it("logs the hosts and the limits of commands at the start", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const bash = { network: ["example.com", "*.example.org"], limits: { cpu_seconds: 60 } };
    const server = await startServer(t, { config: { tools: { bash } } });
    await server.waitForOutput(/info limits of each command: cpu_seconds 60/, "stderr");
    await server.waitForOutput(/in bubblewrap, with network access to example\.com, \*\.example\.org/, "stderr");
  });

  it("refuses to run as root with a home folder of another user", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("only root can change the owner of a folder");
    const home = await tempDir(t);
    await chown(home.path, 4711, 4711);
    const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], { home: home.path });
    assert.equal(code, 1);
    assert.match(stderr, /home folder belongs to another user \(4711\), and this is root/);
  });
});
