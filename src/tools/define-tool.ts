import { isRecord } from "../base/json.js";
import { printable } from "../base/printable.js";
import { InputError, ToolInputError } from "../ports/errors.js";
import type {
  JsonSchema,
  Tool,
  ToolCallDescription,
  ToolCallPreview,
  ToolContext,
  ToolKind,
  ToolOutput,
} from "../ports/tool.js";
import { toldOf, unexpected, unpacked } from "./arguments.js";
import { IgnoredArguments } from "./ignored-arguments.js";
import { argumentsBy, type FromJsonSchema } from "./json-schema.js";
import type { StandardSchema } from "./standard-schema.js";

/** The arguments that a schema stands for. */
export type ToolArguments<Schema> = Schema extends StandardSchema<infer Output> ? Output : FromJsonSchema<Schema>;

/** What `defineTool` takes. */
export interface ToolDefinition<Schema extends StandardSchema | JsonSchema> {
  /** `[a-zA-Z0-9_-]{1,64}`. */
  readonly name: string;
  /** For the model: what it does, and when to use it. */
  readonly description: string;
  /**
   * Schema of the arguments, an object: of zod, valibot or any other Standard Schema library, or plain JSON Schema. Default: no
   * arguments. A call with an argument that the schema drops is refused, unless the kind is `read`, `search` or `fetch`.
   */
  readonly schema?: Schema | undefined;
  /** JSON Schema of the arguments for the model, where `schema` is of a library that does not tell it. */
  readonly jsonSchema?: JsonSchema | undefined;
  /** Default `other`. */
  readonly kind?: ToolKind | undefined;
  /** Whether calls may run beside other calls of the same answer. Default false. */
  readonly parallel?: boolean | undefined;
  /** Whether a person is asked first, where a client can ask. Default: unless the kind is `read`, `search` or `think`. */
  readonly needsPermission?: boolean | undefined;
  /** Whether it is of use only where somebody is there to answer: the models of other runs are not told of it. Default false. */
  readonly needsPerson?: boolean | undefined;
  /** Whether it is of use only where there are skills: the models of other runs are not told of it. Default false. */
  readonly needsSkills?: boolean | undefined;
  /** Which models are told of it. Default all. */
  models?: ((model: { readonly provider: string; readonly id: string }) => boolean) | undefined;
  /** Names of tools in whose place it stands: a model that is told of it is not told of them. */
  readonly replaces?: readonly string[] | undefined;
  /** One line for people; must not touch the disk. Default: the name and the arguments. */
  describe?:
    | ((args: ToolArguments<Schema>, projectDir: string) => string | ({ title: string } & Partial<ToolCallDescription>))
    | undefined;
  /** What a person is shown when they are asked, by what is there now; default what `describe` says. */
  preview?:
    | ((
        args: ToolArguments<Schema>,
        context: Pick<ToolContext, "projectDir" | "folders" | "signal">,
      ) => Promise<ToolCallPreview>)
    | undefined;
  /** Do the work; what is told the model, as text or with more. A throw becomes a failed result. */
  run(args: ToolArguments<Schema>, context: ToolContext): string | ToolOutput | Promise<string | ToolOutput>;
}

const HARMLESS: readonly ToolKind[] = ["read", "search", "think"];
const NOTHING = { type: "object", properties: {}, additionalProperties: false } as const;

/**
 * A tool from what is particular about it; the rest has defaults. What the model sends is checked by the schema before
 * `run` or `describe` see it. Throws `InputError` for a name or a schema that no model could be given.
 */
export function defineTool<const Schema extends StandardSchema | JsonSchema = typeof NOTHING>(
  definition: ToolDefinition<Schema>,
): Tool<ToolArguments<Schema>> {
  type Args = ToolArguments<Schema>;
  const { name, description, schema = NOTHING, kind = "other", parallel = false } = definition;
  const { needsPermission = !HARMLESS.includes(kind) } = definition;
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) throw new InputError("name", "1 to 64 letters, digits, _ and -");
  if (typeof definition.run !== "function") throw new InputError(`run of ${name}`, "a function that does the work");
  const check = isStandard(schema) ? schema : argumentsBy(schema);
  const toolSchema = inputSchema(name, check, definition.jsonSchema);
  const ignored = new IgnoredArguments(check, toolSchema, kind);
  return {
    name,
    description,
    inputSchema: toolSchema,
    kind,
    parallel,
    needsPermission,
    ...(definition.needsPerson === true && { needsPerson: true }),
    ...(definition.needsSkills === true && { needsSkills: true }),
    ...(definition.models && { models: (model) => definition.models!(model) }),
    ...(definition.replaces && { replaces: definition.replaces }),
    parse: (input) => {
      const given = recordOf(input);
      const args = checked(name, check, given) as Args;
      ignored.check(given, args);
      return args;
    },
    describe(args, projectDir) {
      const shown = definition.describe?.(args, projectDir) ?? callOf(name, args);
      return typeof shown === "string" ? { title: shown, locations: [] } : { locations: [], ...shown };
    },
    ...(definition.preview && { preview: (args, context) => definition.preview!(args, context) }),
    async run(args, context) {
      const result = await definition.run(args, context);
      const output = typeof result === "string" ? { text: result } : result;
      const note = ignored.noteOf(args);
      return note === undefined ? output : { ...output, text: `${output.text}\n${note}` };
    },
  };
}

function isStandard(schema: StandardSchema | JsonSchema): schema is StandardSchema {
  // A schema of ArkType is a function.
  return "~standard" in schema;
}

/** As plain JSON, the same whenever it is read. */
function inputSchema(name: string, { "~standard": standard }: StandardSchema, given: JsonSchema | undefined) {
  const field = `schema of ${name}`;
  let told: unknown = given;
  try {
    // The dialect that most providers and libraries know.
    told ??= standard.jsonSchema?.input({ target: "draft-07" });
    told &&= JSON.parse(JSON.stringify(told)) as unknown;
  } catch (error) {
    throw new InputError(field, `what JSON Schema can tell, or jsonSchema beside it: ${(error as Error).message}`);
  }
  if (told === undefined)
    throw new InputError(
      field,
      `jsonSchema beside it, because ${standard.vendor} does not tell the JSON Schema itself`,
    );
  if (!isRecord(told) || told["type"] !== "object") throw new InputError(field, "an object with the arguments");
  const { $schema: _dialect, ...plain } = told;
  return plain;
}

function recordOf(input: unknown): Record<string, unknown> {
  const given = unpacked(input ?? {}, "{");
  if (!isRecord(given)) throw new ToolInputError(toldOf([unexpected("an object", given)]));
  return given;
}

function checked(name: string, { "~standard": standard }: StandardSchema, given: object): unknown {
  const result = standard.validate(given);
  if (result instanceof Promise) {
    result.catch(() => undefined);
    throw new Error(`the schema of ${name} checks asynchronously; do that in run`);
  }
  if (result.issues) throw new ToolInputError(toldOf(result.issues));
  return result.value;
}

/** What a person is shown of a call that its tool does not describe. */
function callOf(name: string, args: unknown): string {
  let told: string;
  try {
    told = JSON.stringify(args) ?? "";
  } catch {
    told = "";
  }
  const line = told === "" || told === "{}" ? name : `${name} ${told}`;
  return printable(line.length > 200 ? `${line.slice(0, 199)}…` : line);
}
