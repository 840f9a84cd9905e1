import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describeFailure } from "../../../src/cli/failure-message.js";
import { addSuggestion } from "../../../src/cli/suggestion.js";
import { ConfigError } from "../../../src/ports/errors.js";

describe("a message with expected words", () => {
  for (const [message, suggestion] of [
    ["c.json: sever: unknown key; expected one of server, acp, session", "server"],
    ["c.json: server.prot: unknown key; expected one of host, port, console", "port"],
    ["c.json: permissions.rules[0].tol: unknown key; expected one of tool, match", "tool"],
    ["c.json: agent.tools[0].tol: unknown key; expected one of tool (options belong under tools)", "tool"],
    ['c.json: permissions.mode: expected one of "auto", "ask", "plan", got "aks"', "ask"],
    ['--mode: expected one of auto, ask, plan, got "paln"', "plan"],
    [
      "c.json: providers[0].driver: unknown model-provider opnai: expected openai, google, a package installed in the config file's folder, or a path",
      "openai",
    ],
  ] as const)
    it(`gets the nearest one: ${message}`, () => {
      assert.equal(addSuggestion(message), `${message}; did you mean ${suggestion}?`);
      assert.equal(describeFailure(new ConfigError(message), "run"), addSuggestion(message));
    });

  for (const message of [
    "c.json: nonsense: unknown key; expected one of server, acp, session",
    "c.json: agent.x: unknown key; there are no options",
    'c.json: permissions.mode: expected one of "auto", "ask", got Object',
    "c.json: server.port: expected a whole number from 0 to 65535, got 70000",
  ])
    it(`stays unchanged if no word is similar: ${message}`, () => assert.equal(addSuggestion(message), message));
});
