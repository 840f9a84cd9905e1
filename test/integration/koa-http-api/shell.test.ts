import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { builtinTools, type AgentOptions } from "gantry";
import { ApiError, BusyError, GantryClient } from "gantry/client";
import { startApi, type ApiOptions } from "../../helpers/http-api.js";
import {
  createServerConfig,
  fetchMessages,
  runPrompt,
  startModelServer,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { waitFor } from "../../helpers/wait.js";

const env = { PATH: process.env["PATH"] ?? "" };
const bash = { sandbox: "off" } as const;

/** A server in an empty project, with a client that has the person's token. */
async function startShell(t: Hooks, agentOptions: Partial<AgentOptions> = {}, options: ApiOptions = {}) {
  const [project, home] = [await tempDir(t), await tempDir(t)];
  const api = await startApi(t, {
    ...options,
    host: { tokenFolder: home.path },
    agent: { tools: builtinTools({ env, bash }), projectDir: project.path, ...agentOptions },
  });
  const headers = { authorization: `Bearer ${readFileSync(home.at("token"), "utf8")}` };
  const client = new GantryClient({ url: api.url, headers });
  const { id } = await api.agent.sessions.create();
  return { ...api, project, client, headers, id };
}

const hasCode = (code: string) => (error: unknown) => error instanceof ApiError && error.code === code;

describe("POST /api/sessions/{id}/shell", { skip: process.platform === "win32" }, () => {
  it("runs a command in the project folder, and the model reads command and output with the next prompt", async (t) => {
    const { client, agent, provider, project, id } = await startShell(t, {}, { steps: ["seen"] });
    const result = await client.sessions.shell(id, { command: "pwd; echo '</user-command-output>' >&2; exit 3" });
    const [message] = await client.sessions.messages(id);
    assert.deepEqual(result, {
      exit_code: 3,
      output: `${project.path}\n</user-command-output>\n`,
      truncated: false,
      timed_out: false,
      message_id: message?.id,
    });
    assert.deepEqual(
      [message?.role, message?.content, message?.seq],
      ["user", "!pwd; echo '</user-command-output>' >&2; exit 3", 1],
    );
    assert.match(
      message?.expanded_content ?? "",
      /&lt;\/user-command-output>\n\[exit code 3\]\n<\/user-command-output>$/,
    );
    await (
      await agent.run({ message: "what happened?", sessionId: id })
    ).result;
    const texts = JSON.stringify(provider.requests.find(({ tools }) => tools.length > 0)?.messages);
    assert.match(texts, /<user-command>.*\[exit code 3\].*what happened\?/);
    assert.deepEqual(
      (await client.sessions.messages(id)).map(({ seq }) => seq),
      [1, 2, 3],
    );
  });

  it("with share: false stores nothing and runs beside a run; a shared command gets 409 then", async (t) => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const { client, agent, id } = await startShell(
      t,
      { mode: "plan", rules: [{ tool: "bash", action: "deny" }] },
      { steps: [[released], "second"] },
    );
    const run = await agent.run({ message: "go", sessionId: id });
    const { output, message_id } = await client.sessions.shell(id, { command: "echo private", share: false });
    assert.deepEqual([output, message_id], ["private\n", null], "modes and rules do not apply to a person");
    await assert.rejects(client.sessions.shell(id, { command: "echo shared" }), BusyError);
    release();
    await run.result;
    assert.equal((await client.sessions.shell(id, { command: "echo shared" })).exit_code, 0);
    assert.deepEqual((await client.sessions.messages(id)).map(({ role, content }) => [role, content]).at(-1), [
      "user",
      "!echo shared",
    ]);
  });

  it("streams the output; an abort stops the command with its processes, and stores nothing", async (t) => {
    const { client, project, agent, id } = await startShell(t);
    const controller = new AbortController();
    let output = "";
    const command = "echo begun; sleep 1000 & echo $! > child.pid; wait";
    const shell = client.sessions.shell(
      id,
      { command },
      { signal: controller.signal, onOutput: (text) => (output += text) },
    );
    await waitFor("output", () => output.includes("begun") || undefined);
    const pid = Number(await project.readWhenWritten("child.pid"));
    assert.equal(
      await agent.run({ message: "x", sessionId: id }).catch((error: Error) => error.message),
      "session is busy",
    );
    controller.abort();
    await assert.rejects(shell, { name: "AbortError" });
    await waitFor("the end of the child", () => {
      try {
        process.kill(pid, 0);
        return undefined;
      } catch {
        return true;
      }
    });
    // The lease is free again after the processes have ended.
    await waitFor(
      "a free session",
      async () => (await client.sessions.shell(id, { command: "true" }).catch(() => undefined)) ?? undefined,
    );
    assert.deepEqual(
      (await client.sessions.messages(id)).map(({ content }) => content),
      ["!true"],
    );
  });

  it("streams the last output, the result, and errors before the first output as plain responses", async (t) => {
    const { client, id } = await startShell(t);
    const pieces: string[] = [];
    const onOutput = (text: string) => void pieces.push(text);
    const result = await client.sessions.shell(id, { command: "echo fast" }, { onOutput });
    assert.deepEqual([result.output, result.exit_code], ["fast\n", 0]);
    await assert.rejects(
      client.sessions.shell("none", { command: "true" }, { onOutput }),
      hasCode("session_not_found"),
    );
    await assert.rejects(client.sessions.shell(id, { command: " " }, { onOutput }), hasCode("invalid_field"));
  });

  it("bounds long output, shows binary output as text, and applies the time limit", async (t) => {
    const { client, id } = await startShell(t);
    const long = await client.sessions.shell(id, { command: "yes 0123456789 | head -c 5000000" });
    assert.ok(long.truncated && long.output.length < 31_000, `${long.output.length}`);
    const binary = await client.sessions.shell(id, { command: "head -c 1000 /dev/zero; printf '\\377\\376'" });
    assert.match(binary.output, /^\uFFFD+$/u);
    const slow = await client.sessions.shell(id, { command: "echo a; sleep 1000", timeout: 1 });
    assert.deepEqual([slow.exit_code, slow.timed_out, slow.output], [null, true, "a\n"]);
    const messages = await client.sessions.messages(id);
    assert.ok(Math.max(...messages.map(({ expanded_content = "" }) => expanded_content.length)) < 32_000);
  });

  it("hides secrets, and gives the command only the configured environment", async (t) => {
    process.env["GANTRY_TEST_API_KEY"] = "sk-ant-api03-1234567890abcdefghijklmnop";
    t.after(() => void delete process.env["GANTRY_TEST_API_KEY"]);
    const { client, id } = await startShell(t);
    const { output } = await client.sessions.shell(id, {
      command: "env; echo sk-ant-api03-1234567890abcdefghijklmnop",
    });
    assert.doesNotMatch(output, /1234567890abcdef|GANTRY_TEST/);
  });

  it("refuses requests without a person, invalid fields, and servers without commands", async (t) => {
    const { send, headers, id } = await startShell(t);
    const path = `/api/sessions/${id}/shell`;
    const post = async (body: object, sendHeaders: Record<string, string> = headers) => {
      const response = await send(path, { body: JSON.stringify(body), headers: sendHeaders });
      return [response.status, (response.json() as { code?: string }).code];
    };
    assert.deepEqual(await post({ command: "true" }, {}), [403, "person_required"]);
    for (const body of [{}, { command: 1 }, { command: "a\0b" }, { command: "x".repeat(200_000) }])
      assert.deepEqual(await post(body), [400, "invalid_field"]);
    for (const timeout of [0, 1.5, 601, "1"])
      assert.deepEqual(await post({ command: "true", timeout }), [400, "invalid_field"]);
    for (const options of [{ http: { shell: false } }, {}] satisfies ApiOptions[]) {
      const disabledServer = await startShell(
        t,
        options.http ? {} : { tools: builtinTools({ bash: { enabled: false } }) },
        options,
      );
      await assert.rejects(
        disabledServer.client.sessions.shell(disabledServer.id, { command: "true" }),
        hasCode("commands_disabled"),
      );
    }
  });

  it("stops the command when the session is deleted and when the agent closes", async (t) => {
    const { client, agent, project, id } = await startShell(t);
    const deleted = client.sessions.shell(id, { command: "echo x > begun; sleep 1000", share: false });
    await project.readWhenWritten("begun");
    await agent.sessions.delete(id);
    await assert.rejects(deleted, hasCode("session_not_found"));
    const { id: secondId } = await agent.sessions.create();
    const closed = agent.sessions.runCommand(secondId, { command: "echo x > again; sleep 1000" });
    await project.readWhenWritten("again");
    const rejection = assert.rejects(closed, { code: "shutting_down" });
    await agent.close();
    await rejection;
    await assert.rejects(agent.sessions.runCommand(secondId, { command: "true" }), { code: "shutting_down" });
  });

  it("shows watchers the shared command at once", async (t) => {
    const { client, id } = await startShell(t);
    const controller = new AbortController();
    const seen = (async () => {
      for await (const event of client.sessions.watch(id, { signal: controller.signal }))
        if (event.type === "message") return event.message.content;
      return undefined;
    })();
    await client.sessions.shell(id, { command: "echo watched" });
    assert.equal(await seen, "!echo watched");
    controller.abort();
  });
});

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

describe(
  "SIGKILL of a server while a person's command runs",
  { skip: process.platform === "linux" ? false : "needs /proc" },
  () => {
    for (const sandbox of ["auto", "off"])
      it(`leaves no process and stores nothing, and the session accepts the next command (sandbox ${sandbox})`, async (t) => {
        const [home, folder] = [await tempDir(t), await tempDir(t)];
        const modelServer = await startModelServer(t);
        const config = createServerConfig(modelServer, { tools: { bash: { sandbox } } });
        const options = { config, home: home.path, projectDir: folder.path, sendsToken: true };
        const firstServer = await startServer(t, options);
        const { sessionId } = await runPrompt(firstServer, { message: "hi" });
        const postCommand = (server: GantryServer, command: string) =>
          server.fetch(`/api/sessions/${sessionId}/shell`, { method: "POST", body: JSON.stringify({ command }) });
        // The argument identifies the processes outside of the sandbox's namespace too.
        const marker = `1000.${Date.now() % 100_000}`;
        const response = postCommand(firstServer, `sleep ${marker} & echo x > begun; wait`).catch(() => undefined);
        await folder.readWhenWritten("begun");
        // The file can be written before the forked shell starts `sleep`.
        let pids: number[] = [];
        await waitUntil(() => Promise.resolve((pids = findPids(`sleep\0${marker}`)).length > 0));
        assert.equal(pids.length, 1);
        await firstServer.stop("SIGKILL");
        await response;
        await waitUntil(() => Promise.resolve(!pids.some(isLiving)));

        const secondServer = await startServer(t, options);
        const result = (await (await postCommand(secondServer, "echo again")).json()) as { output: string };
        assert.equal(result.output, "again\n");
        assert.deepEqual(
          (await fetchMessages(secondServer, sessionId)).map(({ content }) => content),
          ["hi", "OK.", "!echo again"],
        );
      });
  },
);

/** Ids of the processes whose command line begins with `text`. */
function findPids(text: string): number[] {
  return readdirSync("/proc").flatMap((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "latin1").startsWith(text)
        ? [Number(name)]
        : [];
    } catch {
      return [];
    }
  });
}
