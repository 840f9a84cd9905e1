import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { createLogger } from "../../../src/base/log.js";
import { loadConfig, type Overrides } from "../../../src/serve/config.js";
import { createChildEnvironment } from "../../../src/serve/environment.js";
import { tempDir } from "../../helpers/temp-dir.js";

async function loadTestConfig(t: TestContext, content: string, overrides: Overrides = {}) {
  const home = await tempDir(t, { "config.json": content });
  return { home, loadedConfig: await loadConfig({ home: home.path, overrides }) };
}

/** Loads an invalid config. Returns the error message without the path of the config file at its start. */
async function getConfigError(t: TestContext, content: string, overrides: Overrides = {}): Promise<string> {
  const home = await tempDir(t, { "config.json": content });
  const file = home.at("config.json");
  try {
    await loadConfig({ home: home.path, overrides });
  } catch (error) {
    assert.ok(error instanceof Error && (error as { code?: unknown }).code === "config");
    assert.ok(error.message.startsWith(file), error.message);
    assert.ok(!error.message.includes("\n"));
    return error.message.slice(file.length);
  }
  assert.fail("the config is accepted");
}

describe("the config file", () => {
  it("can be missing or empty, and can contain comments and trailing commas", async (t) => {
    const home = await tempDir(t);
    const { config } = await loadConfig({ home: home.path });
    assert.equal(config.server.host, "127.0.0.1");
    assert.equal(config.server.port, 8080);
    assert.deepEqual(config.server.transports, ["koa-http-api", "web-console"]);
    assert.equal(config.session.driver, "sqlite");
    assert.equal(config.limits.concurrentRuns, 512);
    assert.equal((await loadTestConfig(t, "")).loadedConfig.config.server.port, 8080);
    const commentedConfig = '{ // a comment\n "server": { "port": 9, }, /* more */ }';
    assert.equal((await loadTestConfig(t, commentedConfig)).loadedConfig.config.server.port, 9);
  });

  it("must exist if a flag sets its path", async (t) => {
    const home = await tempDir(t);
    await assert.rejects(loadConfig({ home: home.path, path: home.at("nope.json") }), {
      message: `${home.at("nope.json")}: cannot be read (ENOENT)`,
    });
  });

  it("is overridden by flags", async (t) => {
    const { loadedConfig } = await loadTestConfig(t, '{"server":{"port":9,"host":"::1"}}', {
      "server.port": 10,
      "server.host": undefined,
    });
    assert.equal(loadedConfig.config.server.port, 10);
    assert.equal(loadedConfig.config.server.host, "::1");
  });

  it("is rejected with the file, the key path and the expected value", async (t) => {
    assert.equal(
      await getConfigError(t, '{"server":{"port":"80"}}'),
      ': server.port: expected a whole number from 0 to 65535, got "80"',
    );
    assert.equal(
      await getConfigError(t, '{"server":{"port":65536}}'),
      ": server.port: expected a whole number from 0 to 65535, got 65536",
    );
    assert.match(
      await getConfigError(t, '{"serve":{}}'),
      /^: serve: unknown key; expected one of server, acp, session, /,
    );
    assert.match(
      await getConfigError(t, '{"server":{"prot":1}}'),
      /^: server.prot: unknown key; expected one of host, port,/,
    );
    assert.equal(
      await getConfigError(t, '{"tools":{"bash":{"timeout":0}}}'),
      ": tools.bash.timeout: expected a number above 0, got 0",
    );
    assert.equal(
      await getConfigError(t, '{"server":{"on_disconnect":"x"}}'),
      ': server.on_disconnect: expected one of "cancel", "continue", got "x"',
    );
    assert.equal(
      await getConfigError(t, '{"agent":{"tools":["a",5]}}'),
      ': agent.tools[1]: expected a tool\'s name, or an object with the key "tool" and its options, got 5',
    );
    assert.match(await getConfigError(t, "[]"), /expected an object, got Array$/);
    assert.match(
      await getConfigError(t, '{"server":5}'),
      /^: server: expected an object with the keys host, port,.*got 5$/,
    );
    assert.equal(
      await getConfigError(t, '{"server":{"transports":[]}}'),
      ": server.transports: expected at least one transport, got 0",
    );
    assert.equal(
      await getConfigError(t, "{}", { "server.port": NaN }),
      ": server.port: expected a whole number from 0 to 65535, got NaN",
    );
  });

  for (const [content, position, expected, line] of [
    ['{"server": {\n "port": }', ":2:10", "a value", '"port": }'],
    ['{ "server": { "port": 80\n "host": "x" }}', ":2:2", '"," before this place', '"host": "…" }}'],
    ['{ "server": ', ":1:13", "a value", '{ "server":'],
    ["{ server: {}}", ":1:3", "a value, or a key in double quotes", "{ server: {}}"],
    ['{"log" {}}', ":1:8", '":" after the key', '{"…" {}}'],
    ['{"log": {}', ":1:11", '"}"', '{"log": {}'],
    ['{"log": "x\n}', ":1:9", '" at the end of the string', '{"log": "…"'],
    ['{"log": {}} x', ":1:13", "a value, or a key in double quotes", '{"log": {}} x'],
    ["{}\n[", ":2:1", "the end of the file", "["],
  ] as const)
    it(`is rejected with the position and the line if it is not JSON: ${JSON.stringify(content)}`, async (t) => {
      const syntax = "in JSON (comments and trailing commas allowed)";
      assert.equal(await getConfigError(t, content), `${position}: expected ${expected}, ${syntax}: ${line}`);
    });

  it("is rejected without its values if it is not JSON, because a value can be a key", async (t) => {
    for (const content of [
      '{"api_key": "hunter2-abcdef" "name": "x"}',
      '{"api_key": hunter2-abcdef}',
      '{"api_key": "hunter2-abcdef: 3}',
      '{"api_key": "hunter2-abcdef": 3}',
      '{"api_key: "hunter2-abcdef"}',
      "{'api_key': 'hunter2-abcdef'}",
      '{"list": ["hunter2-abcdef" "x"]}',
      '{ // hunter2-abcdef\n "name" }',
      '{"name" /* hunter2-abcdef */ }',
    ])
      assert.doesNotMatch(await getConfigError(t, content), /hunter2/, content);
  });

  it("is rejected for an invalid value even if a flag overrides that value", async (t) => {
    const expectedError = ': server.port: expected a whole number from 0 to 65535, got "9"';
    assert.equal(await getConfigError(t, '{"server":{"port":"9"}}', { "server.port": 0 }), expectedError);
    assert.match(
      await getConfigError(t, '{"server":null}', { "server.port": 0 }),
      /^: server: expected an object.*got null$/,
    );
  });

  it("can start with a byte order mark", async (t) => {
    assert.equal((await loadTestConfig(t, '\uFEFF{"server":{"port":9}}')).loadedConfig.config.server.port, 9);
  });

  it("accepts only valid header names and values as headers", async (t) => {
    for (const key of ["server.required_headers", "server.headers", "acp.required_headers"]) {
      const [section = "", name = ""] = key.split(".");
      const getHeaderError = (value: string) => getConfigError(t, `{"${section}":{"${name}":${value}}}`);
      assert.equal(await getHeaderError("[]"), `: ${key}: expected an object of header names and values, got Array`);
      assert.equal(await getHeaderError('{"X Y":"1"}'), `: ${key}."X Y": expected a header name, got "X Y"`);
      assert.equal(await getHeaderError('{"":"1"}'), `: ${key}."": expected a header name, got ""`);
      assert.equal(
        await getHeaderError('{"__proto__":"x"}'),
        `: ${key}."__proto__": expected a header name, got "__proto__"`,
      );
      assert.equal(await getHeaderError('{"X-Y":1}'), `: ${key}.X-Y: expected a string, got number`);
      assert.match(await getHeaderError('{"X-Y":"a\\nb"}'), /X-Y: expected one line of (Latin-1 )?text, got string$/);
    }
    const { config } = (await loadTestConfig(t, '{"server":{"required_headers":{"constructor":"x"}}}')).loadedConfig;
    assert.deepEqual(Object.entries(config.server.requiredHeaders), [["constructor", "x"]]);
  });

  it("expands environment variables in strings, and names a variable that is not set", async (t) => {
    process.env["GANTRY_TEST_KEY"] = "s3cret-value";
    t.after(() => delete process.env["GANTRY_TEST_KEY"]);
    const { loadedConfig } = await loadTestConfig(
      t,
      '{"providers":[{"provider":"openai","api_key":"${GANTRY_TEST_KEY}"}]}',
    );
    assert.equal(loadedConfig.config.providers[0]?.["api_key"], "s3cret-value");
    assert.ok(loadedConfig.secrets.has("s3cret-value"));
    assert.equal(
      await getConfigError(t, '{"providers":[{"api_key":"${GANTRY_TEST_UNSET}"}]}'),
      ": providers[0].api_key: expected the environment variable GANTRY_TEST_UNSET to be set",
    );
  });

  it("treats API keys and header values as secrets, including the token of a Bearer header", async (t) => {
    const { loadedConfig } = await loadTestConfig(
      t,
      '{"server":{"required_headers":{"Authorization":"Bearer abcdefgh1"}},"providers":[{"api_key":"key-value","headers":{"X-Key":"other-key"}}]}',
    );
    for (const secret of ["Bearer abcdefgh1", "abcdefgh1", "key-value", "other-key"])
      assert.ok(loadedConfig.secrets.has(secret), secret);
  });

  it("treats no path, name or response header as a secret", async (t) => {
    const variables = {
      GANTRY_TEST_DIR: "/home/somebody/else",
      GANTRY_TEST_TOKEN: "tok-1",
      GANTRY_TEST_NAME: "Some Name",
    };
    Object.assign(process.env, variables);
    t.after(() => Object.keys(variables).forEach((name) => delete process.env[name]));
    const { loadedConfig } = await loadTestConfig(
      t,
      JSON.stringify({
        tools: { allow_paths: ["${GANTRY_TEST_DIR}/shared", "${GANTRY_TEST_DIR}"] },
        server: { headers: { "X-Frame-Options": "SAMEORIGIN", "X-Key": "told-to-everybody" } },
        agent: { system_prompt: "${GANTRY_TEST_NAME} ${GANTRY_TEST_TOKEN}" },
        session: { url: "postgres://me:p%40ss1@host/db" },
        providers: [
          {
            provider: "openai",
            api_key: "key-value",
            headers: { "X-Title": "My Application", "X-Auth": "Token abcd1" },
          },
          { name: "x", base_url: "https://example.com/v1", driver: "AbCdEf0123456789GhIjKl" },
        ],
      }),
    );
    assert.deepEqual([...loadedConfig.secrets].sort(), [
      "AbCdEf0123456789GhIjKl",
      "Token abcd1",
      "abcd1",
      "key-value",
      "p%40ss1",
      "p@ss1",
      "postgres://me:p%40ss1@",
      "tok-1",
    ]);
  });

  it("keeps `$${NAME}` as the literal text `${NAME}`", async (t) => {
    const { loadedConfig } = await loadTestConfig(
      t,
      '{"agent":{"system_prompt":"write $${HOME} and $$${X}, $HOME, ${}"}}',
    );
    assert.equal(loadedConfig.config.agent.systemPrompt, "write ${HOME} and $${X}, $HOME, ${}");
  });

  it("redacts secrets and the values of environment variables in error messages", async (t) => {
    process.env["GANTRY_TEST_KEY"] = "s3cret-value";
    process.env["GANTRY_TEST_PLAIN"] = "wherever";
    t.after(() => ["GANTRY_TEST_KEY", "GANTRY_TEST_PLAIN"].forEach((name) => delete process.env[name]));
    for (const text of [
      '{"server":{"port":"${GANTRY_TEST_KEY}"}}',
      '{"tools":{"bash":{"sandbox":"${GANTRY_TEST_PLAIN}"}}}',
      '{"server":{"port":"sk-abcdefghijklmnopqrst"}}',
    ]) {
      const message = await getConfigError(t, text);
      assert.ok(!/s3cret|wherever|sk-abc/.test(message), message);
      assert.match(message, /expected .*, got "\[redacted\]"/);
    }
    const { loadedConfig } = await loadTestConfig(t, '{"agent":{"system_prompt":"${GANTRY_TEST_PLAIN}"}}');
    assert.equal(loadedConfig.redactMessage("an adapter says wherever"), "an adapter says [redacted]");
  });

  it("keeps the address of the session store in messages and hides its password", async (t) => {
    const location = "db-primary-1.example.internal:54321/gantry_production";
    const variables = {
      GANTRY_TEST_URL: `postgres://ada:correct-horse-1@${location}?sslmode=require&password=other-horse-22`,
      GANTRY_TEST_DB_SECRET: `postgres://${location}`,
      GANTRY_TEST_HOST: "db-primary-1.example.internal",
      GANTRY_TEST_PASSWORD: "battery-staple-3",
      GANTRY_TEST_BROKEN: "postgres://ada:12#broken-horse@host/db",
    };
    Object.assign(process.env, variables);
    t.after(() => Object.keys(variables).forEach((name) => delete process.env[name]));
    for (const url of [
      "${GANTRY_TEST_URL}",
      "${GANTRY_TEST_DB_SECRET}",
      "postgres://ada:${GANTRY_TEST_PASSWORD}@${GANTRY_TEST_HOST}:54321/gantry_production",
    ])
      for (const session of [
        { driver: "postgres", url },
        { driver: "postgres", url: "postgres://x@other/db", pool: { listen_url: url } },
      ]) {
        const { loadedConfig } = await loadTestConfig(t, JSON.stringify({ session }));
        const lines: string[] = [];
        const logger = createLogger({
          level: "warn",
          write: (line) => lines.push(line),
          secrets: () => loadedConfig.secrets,
        });
        const message = `session store ${location}: nothing listens there (ECONNREFUSED)`;
        logger.warn(message);
        assert.ok(lines[0]?.includes(message), lines[0]);
        assert.equal(loadedConfig.redactMessage(message), message);
        const fullUrl = url.replace(/\$\{(\w+)\}/g, (_all, name: keyof typeof variables) => variables[name]);
        logger.warn(fullUrl);
        assert.doesNotMatch(lines[1] ?? "", /horse-|battery/);
        assert.doesNotMatch(loadedConfig.redactMessage(fullUrl), /horse-|battery/);
      }
    const { loadedConfig } = await loadTestConfig(t, '{"session":{"driver":"postgres","url":"${GANTRY_TEST_BROKEN}"}}');
    assert.equal(loadedConfig.redactMessage(variables.GANTRY_TEST_BROKEN), "[redacted]");
  });

  it("rejects `__proto__` as an unknown key", async (t) => {
    assert.match(await getConfigError(t, '{"__proto__":{"polluted":true}}'), /^: __proto__: unknown key/);
    assert.match(await getConfigError(t, '{"server":{"__proto__":{"port":1}}}'), /^: server.__proto__: unknown key/);
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });
});

describe("the environment of child processes", () => {
  it("contains only the allowed variables and the variables that the config adds", (t) => {
    process.env["GANTRY_TEST_CANARY"] = "canary";
    process.env["LC_GANTRY"] = "C";
    t.after(() => {
      delete process.env["GANTRY_TEST_CANARY"];
      delete process.env["LC_GANTRY"];
    });
    const env = createChildEnvironment([]);
    assert.equal(env["PATH"], process.env["PATH"]);
    assert.equal(env["LC_GANTRY"], "C");
    assert.equal(env["GANTRY_TEST_CANARY"], undefined);
    assert.equal(createChildEnvironment(["GANTRY_TEST_CANARY"])["GANTRY_TEST_CANARY"], "canary");
  });

  it("sets GIT_EDITOR to `:` unless the config passes the variable", (t) => {
    const previousEditor = process.env["GIT_EDITOR"];
    process.env["GIT_EDITOR"] = "theirs";
    t.after(() => {
      if (previousEditor === undefined) delete process.env["GIT_EDITOR"];
      else process.env["GIT_EDITOR"] = previousEditor;
    });
    assert.equal(createChildEnvironment([])["GIT_EDITOR"], ":");
    assert.equal(createChildEnvironment(["GIT_EDITOR"])["GIT_EDITOR"], "theirs");
  });
});
