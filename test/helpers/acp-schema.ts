import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Profile } from "../../adapters/acp-shared/index.js";

/** The stable schema, and the one that also contains methods and fields which are not stable yet. */
type SchemaName = "schema" | "schema.unstable";

const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
for (const name of ["schema", "schema.unstable"] satisfies SchemaName[]) {
  const url = new URL(`../../node_modules/@agentclientprotocol/sdk/schema/v1/${name}.json`, import.meta.url);
  ajv.addSchema({ ...(JSON.parse(readFileSync(fileURLToPath(url), "utf8")) as object), $id: name });
}
const validators = new Map<string, ValidateFunction>();

/** Definitions of results, by method. */
const RESULT_DEFINITIONS: Readonly<Record<string, string>> = {
  initialize: "InitializeResponse",
  authenticate: "AuthenticateResponse",
  logout: "LogoutResponse",
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
/** Definitions of results in the unstable schema, by method. */
const UNSTABLE_RESULT_DEFINITIONS: Readonly<Record<string, string>> = {
  initialize: "InitializeResponse",
  "session/fork": "ForkSessionResponse",
  "session/set_title": "SetSessionTitleResponse",
  "session/archive": "ArchiveSessionResponse",
  "session/unarchive": "UnarchiveSessionResponse",
  "session/list": "ListSessionsResponse",
};
/** Definitions of params that an agent sends, by method. */
const PARAMS_DEFINITIONS: Readonly<Record<string, string>> = {
  "session/update": "SessionNotification",
  "session/request_permission": "RequestPermissionRequest",
  "elicitation/create": "CreateElicitationRequest",
  "fs/read_text_file": "ReadTextFileRequest",
  "fs/write_text_file": "WriteTextFileRequest",
  "$/cancel_request": "CancelRequestNotification",
};

function assertMatches(
  definition: string,
  value: unknown,
  description: string,
  schemaName: SchemaName = "schema",
): void {
  const reference = `${schemaName}#/$defs/${definition}`;
  let validate = validators.get(reference);
  if (!validate) {
    validate = ajv.compile({ $ref: reference });
    validators.set(reference, validate);
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
  const unstableDefinition = method === undefined ? undefined : UNSTABLE_RESULT_DEFINITIONS[method];
  if (unstableDefinition) assertMatches(unstableDefinition, value.result, `the result of ${method}`, "schema.unstable");
}
