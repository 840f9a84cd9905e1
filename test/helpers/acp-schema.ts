import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Profile } from "../../adapters/acp-shared/index.js";

const schemaFile = fileURLToPath(
  new URL("../../node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", import.meta.url),
);
const schema = JSON.parse(readFileSync(schemaFile, "utf8")) as { $defs: Record<string, unknown> };

const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
ajv.addSchema({ ...schema, $id: "acp" });
const validators = new Map<string, ValidateFunction>();

/** Definitions of results, by method. */
const RESULT_DEFINITIONS: Readonly<Record<string, string>> = {
  initialize: "InitializeResponse",
  authenticate: "AuthenticateResponse",
  "session/new": "NewSessionResponse",
  "session/load": "LoadSessionResponse",
  "session/resume": "ResumeSessionResponse",
  "session/prompt": "PromptResponse",
  "session/delete": "DeleteSessionResponse",
  "session/close": "CloseSessionResponse",
  "session/list": "ListSessionsResponse",
  "session/set_config_option": "SetSessionConfigOptionResponse",
  "session/set_mode": "SetSessionModeResponse",
};
/** Definitions of params that an agent sends, by method. */
const PARAMS_DEFINITIONS: Readonly<Record<string, string>> = {
  "session/update": "SessionNotification",
  "session/request_permission": "RequestPermissionRequest",
  "fs/read_text_file": "ReadTextFileRequest",
  "fs/write_text_file": "WriteTextFileRequest",
  "$/cancel_request": "CancelRequestNotification",
};

function assertMatches(definition: string, value: unknown, description: string): void {
  let validate = validators.get(definition);
  if (!validate) {
    validate = ajv.compile({ $ref: `acp#/$defs/${definition}` });
    validators.set(definition, validate);
  }
  if (!validate(value)) {
    assert.fail(`${description} is no ${definition}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`);
  }
}

/** Whether gantry's specification defines this result differently from the schema, in the `spec` profile. */
function isException(method: string, result: unknown, profile: Profile): boolean {
  if (profile !== "spec") return false;
  if (method === "session/load" || method === "session/delete") return result === null;
  return method === "session/prompt" && (result as { stopReason?: unknown }).stopReason === "error";
}

/**
 * Asserts that a message of the agent is valid under the official schema, except for the differences of the `spec`
 * profile. `method`: method of the request that a response answers.
 */
export function assertValidMessage(message: unknown, method: string | undefined, profile: Profile): void {
  assert.ok(typeof message === "object" && message !== null && !Array.isArray(message), "a message is an object");
  const value = message as Record<string, unknown>;
  assert.equal(value.jsonrpc, "2.0");
  const keys = Object.keys(value).sort().join();
  if ("method" in value) {
    assert.match(keys, /^(id,)?jsonrpc,method,params$/);
    const definition = PARAMS_DEFINITIONS[String(value.method)];
    assert.ok(definition, `the agent sent an unknown method: ${String(value.method)}`);
    assertMatches(definition, value.params, `params of ${String(value.method)}`);
    return;
  }
  assert.match(keys, /^(id,jsonrpc,result|error,id,jsonrpc)$/, "exactly one of result and error");
  assert.ok(value.id === null || typeof value.id === "string" || Number.isInteger(value.id));
  if ("error" in value) {
    assertMatches("Error", value.error, "an error");
    return;
  }
  const definition = method === undefined ? undefined : RESULT_DEFINITIONS[method];
  if (definition && method !== undefined && !isException(method, value.result, profile)) {
    assertMatches(definition, value.result, `the result of ${method}`);
  }
}
