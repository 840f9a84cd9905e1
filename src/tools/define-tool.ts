import { isRecord } from "../base/json.js";
import { toPrintable } from "../base/printable.js";
import { InputError, ToolInputError } from "../ports/errors.js";
import type { JsonSchema, Tool, ToolCallDescription, ToolCallPreview, ToolContext, ToolOutput } from "../ports/tool.js";
import type { ToolKind } from "../ports/tool-display.js";
import { describeIssues, createTypeIssue, unpackJson } from "./arguments.js";
import { IgnoredArguments } from "./ignored-arguments.js";
import { argumentsFromJsonSchema, type FromJsonSchema } from "./json-schema.js";
import type { StandardSchema } from "./standard-schema.js";

/** The type of the arguments of a schema. */
export type ToolArguments<Schema> = Schema extends StandardSchema<infer Output> ? Output : FromJsonSchema<Schema>;

/** Definition of a tool for `defineTool`. */
export interface ToolDefinition<Schema extends StandardSchema | JsonSchema> {
  /** Pattern: `[a-zA-Z0-9_-]{1,64}`. */
  readonly name: string;
  /** Description for the model: what the tool does and when to use it. */
  readonly description: string;
  /**
   * Schema of the arguments, an object. From zod, valibot or any other Standard Schema library, or plain JSON Schema.
   * Default: no arguments.
   *
   * A call with an argument that the schema drops is rejected, unless the kind is `read`, `search` or `fetch`.
   */
  readonly schema?: Schema | undefined;
  /** JSON Schema of the arguments for the model. Required if the library of `schema` does not export one. */
  readonly jsonSchema?: JsonSchema | undefined;
  /** Kind of the tool. Default: `other`. */
  readonly kind?: ToolKind | undefined;
  /** Whether a call may run concurrently with other calls of the same answer. Default: false. */
  readonly parallel?: boolean | undefined;
  /**
   * Whether a call needs a permission request, where a client can answer one. Default: false for the kinds `read`,
   * `search` and `think`, otherwise true.
   */
  readonly needsPermission?: boolean | undefined;
  /** Whether the tool needs a user who can answer. Runs without such a user do not offer it. Default: false. */
  readonly needsUser?: boolean | undefined;
  /** Whether the tool needs skills. Runs without skills do not offer it. Default: false. */
  readonly needsSkills?: boolean | undefined;
  /** Whether a model is offered the tool. Default: true for all models. */
  models?: ((model: { readonly provider: string; readonly id: string }) => boolean) | undefined;
  /**
   * Names of the tools that this tool replaces. A model that is offered this tool is not offered the replaced tools.
   */
  readonly replaces?: readonly string[] | undefined;
  /** One line for the user. Must not access the disk. Default: the name and the arguments. */
  describe?:
    | ((args: ToolArguments<Schema>, projectDir: string) => string | ({ title: string } & Partial<ToolCallDescription>))
    | undefined;
  /** Preview for a permission request, from the current state of the files. Default: the result of `describe`. */
  preview?:
    | ((
        args: ToolArguments<Schema>,
        context: Pick<ToolContext, "projectDir" | "folders" | "signal">,
      ) => Promise<ToolCallPreview>)
    | undefined;
  /**
   * Runs the call. Returns the result for the model, as text or as `ToolOutput`. An exception becomes a failed result.
   */
  run(args: ToolArguments<Schema>, context: ToolContext): string | ToolOutput | Promise<string | ToolOutput>;
}

const KINDS_WITHOUT_PERMISSION: readonly ToolKind[] = ["read", "search", "think"];
const MAX_DEFAULT_TITLE_CHARACTERS = 200;
const NO_ARGUMENTS = { type: "object", properties: {}, additionalProperties: false } as const;

/**
 * Creates a tool from its definition. The schema validates the model's input before `run` and `describe` receive it.
 *
 * Throws `InputError` if the name or the schema is invalid for models.
 */
export function defineTool<const Schema extends StandardSchema | JsonSchema = typeof NO_ARGUMENTS>(
  definition: ToolDefinition<Schema>,
): Tool<ToolArguments<Schema>> {
  type Args = ToolArguments<Schema>;
  const { name, description, schema = NO_ARGUMENTS, kind = "other", parallel = false } = definition;
  const { needsPermission = !KINDS_WITHOUT_PERMISSION.includes(kind) } = definition;
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) throw new InputError("name", "1 to 64 letters, digits, _ and -");
  if (typeof definition.run !== "function") throw new InputError(`run of ${name}`, "a function");
  const standardSchema = isStandard(schema) ? schema : argumentsFromJsonSchema(schema);
  const toolSchema = createInputSchema(name, standardSchema, definition.jsonSchema);
  const ignoredArguments = new IgnoredArguments(standardSchema, toolSchema, kind);
  return {
    name,
    description,
    inputSchema: toolSchema,
    kind,
    parallel,
    needsPermission,
    ...(definition.needsUser === true && { needsUser: true }),
    ...(definition.needsSkills === true && { needsSkills: true }),
    ...(definition.models && { models: (model) => definition.models!(model) }),
    ...(definition.replaces && { replaces: definition.replaces }),
    parse: (input) => {
      const values = requireRecord(input);
      const args = validateInput(name, standardSchema, values) as Args;
      ignoredArguments.check(values, args);
      return args;
    },
    describe(args, projectDir) {
      const callDescription = definition.describe?.(args, projectDir) ?? describeCall(name, args);
      return typeof callDescription === "string"
        ? { title: callDescription, locations: [] }
        : { locations: [], ...callDescription };
    },
    ...(definition.preview && { preview: (args, context) => definition.preview!(args, context) }),
    async run(args, context) {
      const result = await definition.run(args, context);
      const output = typeof result === "string" ? { text: result } : result;
      const note = ignoredArguments.noteOf(args);
      return note === undefined ? output : { ...output, text: `${output.text}\n${note}` };
    },
  };
}

function isStandard(schema: StandardSchema | JsonSchema): schema is StandardSchema {
  // No check for an object, because ArkType schemas are functions.
  return "~standard" in schema;
}

/**
 * Returns the JSON Schema of the arguments as a plain copy, which later changes of the original do not affect. Throws
 * `InputError` if there is no JSON Schema, or if it does not describe an object.
 */
function createInputSchema(
  name: string,
  { "~standard": standard }: StandardSchema,
  jsonSchema: JsonSchema | undefined,
) {
  const field = `schema of ${name}`;
  let schema: unknown = jsonSchema;
  try {
    // The dialect that most providers and libraries support.
    schema ??= standard.jsonSchema?.input({ target: "draft-07" });
    schema &&= JSON.parse(JSON.stringify(schema)) as unknown;
  } catch (error) {
    throw new InputError(field, `a schema that converts to JSON Schema, or jsonSchema: ${(error as Error).message}`);
  }
  if (schema === undefined)
    throw new InputError(field, `jsonSchema, because ${standard.vendor} does not export a JSON Schema`);
  if (!isRecord(schema) || schema["type"] !== "object") throw new InputError(field, "an object with the arguments");
  const { $schema: _dialect, ...schemaWithoutDialect } = schema;
  return schemaWithoutDialect;
}

function requireRecord(input: unknown): Record<string, unknown> {
  const unpackedInput = unpackJson(input ?? {}, "{");
  if (!isRecord(unpackedInput)) throw new ToolInputError(describeIssues([createTypeIssue("an object", unpackedInput)]));
  return unpackedInput;
}

function validateInput(name: string, { "~standard": standard }: StandardSchema, values: object): unknown {
  const result = standard.validate(values);
  if (result instanceof Promise) {
    result.catch(() => undefined);
    throw new Error(`the schema of ${name} is asynchronous; move asynchronous checks to run`);
  }
  if (result.issues) throw new ToolInputError(describeIssues(result.issues));
  return result.value;
}

/** Default description of a call for the user. */
function describeCall(name: string, args: unknown): string {
  let argumentsText: string;
  try {
    argumentsText = JSON.stringify(args) ?? "";
  } catch {
    argumentsText = "";
  }
  const line = argumentsText === "" || argumentsText === "{}" ? name : `${name} ${argumentsText}`;
  return toPrintable(
    line.length > MAX_DEFAULT_TITLE_CHARACTERS ? `${line.slice(0, MAX_DEFAULT_TITLE_CHARACTERS - 1)}…` : line,
  );
}
